// Who may do what with the storage account. Ids come from infra/roles.json; docs/security.md says what each is for.
param storageName string
param appPrincipalId string
param deploymentPrincipalId string
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

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {
  name: storageName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' existing = {
  parent: storage
  name: 'default'
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' existing = [for container in appContainers: {
  parent: blobs
  name: container
}]

resource packages 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' existing = {
  parent: blobs
  name: 'deployments'
}

resource appOnStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in appStorageRoles: {
  name: guid(storage.id, appPrincipalId, role)
  scope: storage
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
  }
}]

resource appOnContainers 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (container, index) in appContainers: {
  name: guid(storage.id, container, appPrincipalId, ids.storageBlobDataOwner)
  scope: containers[index]
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.storageBlobDataOwner)
  }
}]

resource deploymentOnPackages 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(storage.id, packages.name, deploymentPrincipalId, ids.storageBlobDataContributor)
  scope: packages
  properties: {
    principalId: deploymentPrincipalId
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
