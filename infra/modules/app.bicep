// A function app on Flex Consumption, and its settings: the one that serves calls, that takes uploads, or that notifies.
param planName string
param name string
@description('The service of azure.yaml whose package it gets.')
param serviceName string
@description('calls or uploads: what it does (docs/artifacts.md); notifications: it is another program (docs/ecosystem.md).')
param serves string
@description('Settings of the notifier; empty: the app is no notifier.')
param notifies object = {}
@description('Services by which it mails; empty: it does not.')
param communicationName string = ''
param emailServiceName string = ''
@description('Where the app for uploads is; empty if there is none.')
param uploadsRootUrl string
param location string
param tags object
@description('The profile.')
param scale object
param settingOverrides object
param identityName string
@description('The identity that packages are put and fetched by. The app\'s own cannot write them.')
param deploymentIdentityName string
param storageName string
param serviceBusName string
param keyVaultName string
param applicationInsightsName string
@description('Empty: no virtual network.')
param subnetId string
param publicAccess string
param rootUrl string
param appVersion string
param topicPrefix string
param publicArtifactBaseUrl string
param acceptPreviousRootToken bool
param signWithAccountKey bool

var suffixes = loadJsonContent('../suffixes.json')

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: identityName
}

resource deploymentIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: deploymentIdentityName
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

resource communication 'Microsoft.Communication/communicationServices@2026-03-18' existing = if (!empty(communicationName)) {
  name: communicationName
}

resource emailService 'Microsoft.Communication/emailServices@2026-03-18' existing = if (!empty(communicationName)) {
  name: emailServiceName
}

resource domain 'Microsoft.Communication/emailServices/domains@2026-03-18' existing = if (!empty(communicationName)) {
  parent: emailService
  name: 'AzureManagedDomain'
}

// By name, since the account may be one of another group.
var storageUri = {
  blob: 'https://${storageName}.blob.${suffixes.storage}/'
  queue: 'https://${storageName}.queue.${suffixes.storage}/'
  table: 'https://${storageName}.table.${suffixes.storage}/'
}

resource plan 'Microsoft.Web/serverfarms@2025-03-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    tier: 'FlexConsumption'
    name: 'FC1'
  }
  properties: {
    reserved: true
    zoneRedundant: scale.zoneRedundant
  }
}

resource app 'Microsoft.Web/sites@2025-03-01' = {
  name: name
  location: location
  tags: union(tags, {
    'azd-service-name': serviceName
  })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: union({
      '${identity.id}': {}
    }, {
      '${deploymentIdentity.id}': {}
    })
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    clientAffinityEnabled: false
    keyVaultReferenceIdentity: identity.id
    publicNetworkAccess: publicAccess
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    siteConfig: {
      minTlsVersion: '1.2'
      scmMinTlsVersion: '1.2'
      http20Enabled: true
    }
    // The strategy is named only where it is not the platform's own: documented since 2024-11-01, and in no type.
    #disable-next-line BCP037
    functionAppConfig: union(scale.updateStrategy == 'Recreate' ? {} : {
      siteUpdateStrategy: {
        type: scale.updateStrategy
      }
    }, {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storageUri.blob}deployments'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: deploymentIdentity.id
          }
        }
      }
      runtime: {
        name: 'python'
        version: '3.13'
      }
      scaleAndConcurrency: {
        instanceMemoryMB: scale.instanceMemoryMB
        maximumInstanceCount: scale.maximumInstanceCount
        alwaysReady: scale.alwaysReady
        triggers: {
          http: {
            perInstanceConcurrency: scale.httpConcurrency
          }
        }
      }
    })
  }
}

resource noPublishingByFtp 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2025-03-01' = {
  parent: app
  name: 'ftp'
  // Not in the types; Azure has refused policies without it.
  #disable-next-line BCP187
  location: location
  properties: {
    allow: false
  }
}

resource noPublishingByPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2025-03-01' = {
  parent: app
  name: 'scm'
  // Not in the types; Azure has refused policies without it.
  #disable-next-line BCP187
  location: location
  properties: {
    allow: false
  }
}

// A resource of its own, since the root URL is known only when the app exists.
resource settings 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: app
  name: 'appsettings'
  properties: union(empty(notifies) ? union(loadJsonContent('../settings.json'), scale.settings, settingOverrides, ownSettings) : union(notifierSettings, notifies), hostSettings)
}

var hostSettings = {
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identity.properties.clientId
  AzureWebJobsStorage__blobServiceUri: storageUri.blob
  AzureWebJobsStorage__queueServiceUri: storageUri.queue
  AzureWebJobsStorage__tableServiceUri: storageUri.table
  AzureWebJobsDisableHomepage: 'true'
  APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.properties.clientId};Authorization=AAD'
  OTEL_TRACES_SAMPLER: 'parentbased_traceidratio'
  OTEL_TRACES_SAMPLER_ARG: scale.traceRatio
  AzureFunctionsJobHost__extensions__queues__batchSize: string(scale.queueBatchSize)
  AzureFunctionsJobHost__extensions__queues__newBatchThreshold: string(scale.queueBatchSize / 2)
}

var secrets = 'https://${keyVaultName}.${suffixes.vault}/secrets/'
// Without a version, but with the slash at the end: without it some references kept an old version after a rotation.
var ownSettings = {
  TASKCLUSTER_ROOT_URL: empty(rootUrl) ? 'https://${app.properties.defaultHostName}' : rootUrl
  ROOT_ACCESS_TOKEN: '@Microsoft.KeyVault(SecretUri=${secrets}root-access-token/)'
  ROOT_ACCESS_TOKEN_PREVIOUS: acceptPreviousRootToken ? '@Microsoft.KeyVault(SecretUri=${secrets}root-access-token-previous/)' : ''
  MESSAGE_SIGNING_KEYS: '@Microsoft.KeyVault(SecretUri=${secrets}message-signing-keys/)'
  ACCESS_TOKEN_KEYS: '@Microsoft.KeyVault(SecretUri=${secrets}access-token-keys/)'
  STORAGE_ACCOUNT_NAME: storageName
  STORAGE_ACCOUNT_KEY: signWithAccountKey ? '@Microsoft.KeyVault(SecretUri=${secrets}storage-account-key/)' : ''
  SERVICEBUS_NAMESPACE: '${serviceBusName}.${suffixes.serviceBus}'
  MANAGED_IDENTITY_CLIENT_ID: identity.properties.clientId
  TOPIC_PREFIX: topicPrefix
  PUBLIC_ARTIFACT_BASE_URL: publicArtifactBaseUrl
  APP_VERSION: appVersion
  SERVES: serves
  UPLOADS_ROOT_URL: uploadsRootUrl
}

var notifierSettings = {
  TASKCLUSTER_ROOT_URL: rootUrl
  TOPIC_PREFIX: topicPrefix
  ServiceBus__fullyQualifiedNamespace: '${serviceBusName}.${suffixes.serviceBus}'
  ServiceBus__credential: 'managedidentity'
  ServiceBus__clientId: identity.properties.clientId
  MANAGED_IDENTITY_CLIENT_ID: identity.properties.clientId
  MAIL_ENDPOINT: empty(communicationName) ? '' : 'https://${communication!.properties.hostName}'
  MAIL_SENDER: empty(communicationName) ? '' : 'DoNotReply@${domain!.properties.fromSenderDomain}'
}

output rootUrl string = empty(rootUrl) ? 'https://${app.properties.defaultHostName}' : rootUrl
