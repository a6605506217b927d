// The storage account: the truth (tables), timers and pending work (queues), artifacts (blobs).
// What is in it comes from infra/entities.json, which is written from the code.
@minLength(3)
@maxLength(24)
param name string
param location string
param tags object
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_RAGRS'
  'Standard_GZRS'
  'Standard_RAGZRS'
])
param sku string
param allowSharedKeys bool
@description('Only what a function app itself needs: its package and the host\'s containers.')
param packagesAlone bool = false
@description('Open the container of public artifacts to everybody.')
param publicArtifacts bool
param publicAccess string
param allowedAddresses array
param corsOrigins array
@description('Days for which deleted blobs can be restored; 0: not at all.')
param softDeleteDays int
@description('Days after which artifacts move to the cool tier; 0: never.')
param coolAfterDays int
@description('Days after which artifacts are deleted whatever their expiry says; 0: never.')
param deleteAfterDays int

// Storage refuses the ranges /31 and /32: they are given as their two addresses, or their one.
var addresses = flatten(map(allowedAddresses, range => endsWith(range, '/32') ? array(parseCidr(range).network) : endsWith(range, '/31') ? concat(array(parseCidr(range).network), array(parseCidr(range).broadcast)) : array(range)))
var entities = loadJsonContent('../entities.json')
var coolRule = {
  name: 'cool-artifacts'
  enabled: true
  type: 'Lifecycle'
  definition: {
    filters: {
      blobTypes: [
        'blockBlob'
      ]
      prefixMatch: [
        'artifacts/'
        'public-artifacts/'
      ]
    }
    actions: {
      baseBlob: {
        tierToCool: {
          daysAfterModificationGreaterThan: coolAfterDays
        }
      }
    }
  }
}
var deleteRule = {
  name: 'delete-artifacts'
  enabled: true
  type: 'Lifecycle'
  definition: {
    filters: {
      blobTypes: [
        'blockBlob'
      ]
      prefixMatch: [
        'artifacts/'
        'public-artifacts/'
      ]
    }
    actions: {
      baseBlob: {
        delete: {
          daysAfterModificationGreaterThan: deleteAfterDays
        }
      }
    }
  }
}
var rules = concat(coolAfterDays > 0 ? [coolRule] : [], deleteAfterDays > 0 ? [deleteRule] : [])

resource account 'Microsoft.Storage/storageAccounts@2025-08-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: sku
  }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: publicArtifacts
    allowCrossTenantReplication: false
    allowedCopyScope: 'AAD'
    allowSharedKeyAccess: allowSharedKeys
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    // No setting lets a signed URL live for longer than a day. Whoever makes a longer one by hand is warned; it is neither
    // refused nor logged: that takes logs of each request to the account.
    sasPolicy: {
      expirationAction: 'Log'
      sasExpirationPeriod: '1.00:15:00'
    }
    publicNetworkAccess: publicAccess
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: publicAccess == 'Enabled' && empty(allowedAddresses) ? 'Allow' : 'Deny'
      ipRules: [for address in addresses: {
        value: address
        action: 'Allow'
      }]
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-08-01' = {
  parent: account
  name: 'default'
  properties: {
    deleteRetentionPolicy: softDeleteDays > 0 ? {
      enabled: true
      days: softDeleteDays
    } : {
      enabled: false
    }
    containerDeleteRetentionPolicy: {
      enabled: true
      days: 7
    }
    cors: {
      corsRules: empty(corsOrigins) ? [] : [
        {
          allowedOrigins: corsOrigins
          allowedMethods: [
            'GET'
            'HEAD'
            'OPTIONS'
          ]
          allowedHeaders: [
            'range'
          ]
          exposedHeaders: [
            'content-length'
            'content-range'
            'content-type'
            'content-encoding'
          ]
          maxAgeInSeconds: 3600
        }
      ]
    }
  }
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-08-01' = [for container in concat(packagesAlone ? [] : entities.containers, entities.hostContainers, entities.platformContainers): {
  parent: blobs
  name: container
  properties: {
    publicAccess: publicArtifacts && container == 'public-artifacts' ? 'Blob' : 'None'
  }
}]

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-08-01' = {
  parent: account
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-08-01' = [for queue in packagesAlone ? [] : entities.queues: {
  parent: queueService
  name: queue
}]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-08-01' = {
  parent: account
  name: 'default'
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-08-01' = [for table in packagesAlone ? [] : entities.tables: {
  parent: tableService
  name: table
}]

resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-08-01' = if (!empty(rules)) {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: rules
    }
  }
}
