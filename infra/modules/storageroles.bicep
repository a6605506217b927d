// Who may do what with the storage account. Ids come from infra/roles.json; docs/security.md says what each is for.
param storageName string
param identityName string
param deploymentIdentityName string
@description('Empty: no operator.')
param operatorPrincipalId string
param operatorPrincipalType string

var ids = loadJsonContent('../roles.json')
var entities = loadJsonContent('../entities.json')
// Every container but that of the packages.
var appContainers = concat(entities.containers, entities.hostContainers)
var appStorageRoles = [
  ids.storageBlobDelegator
  ids.storageQueueDataContributor
  ids.storageTableDataContributor
  ids.storageQueueDelegator
]
var operatorStorageRoles = empty(operatorPrincipalId) ? [] : [
  ids.storageBlobDataContributor
  ids.storageQueueDataContributor
  ids.storageTableDataContributor
]

resource app 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: identityName
}

resource deployment 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: deploymentIdentityName
}

resource storage 'Microsoft.Storage/storageAccounts@2025-08-01' existing = {
  name: storageName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-08-01' existing = {
  parent: storage
  name: 'default'
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-08-01' existing = [for container in appContainers: {
  parent: blobs
  name: container
}]

resource packages 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-08-01' existing = {
  parent: blobs
  name: 'deployments'
}

resource appOnStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in appStorageRoles: {
  name: guid(storage.id, app.id, role)
  scope: storage
  properties: {
    principalId: app.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
  }
}]

resource appOnContainers 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (container, index) in appContainers: {
  name: guid(storage.id, container, app.id, ids.storageBlobDataOwner)
  scope: containers[index]
  properties: {
    principalId: app.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.storageBlobDataOwner)
  }
}]

resource deploymentOnPackages 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(storage.id, packages.name, deployment.id, ids.storageBlobDataContributor)
  scope: packages
  properties: {
    principalId: deployment.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.storageBlobDataContributor)
  }
}

resource operatorOnStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in operatorStorageRoles: {
  name: guid(storage.id, operatorPrincipalId, role)
  scope: storage
  properties: {
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
  }
}]
