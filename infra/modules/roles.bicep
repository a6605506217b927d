// Who may do what. Ids come from infra/roles.json and nowhere else; docs/security.md says what each is for.
param storageName string
param serviceBusName string
param keyVaultName string
param applicationInsightsName string
param workspaceName string
param workbookName string
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

resource serviceBus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: serviceBusName
}

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: keyVaultName
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

resource workspace 'Microsoft.OperationalInsights/workspaces@2023-09-01' existing = {
  name: workspaceName
}

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' existing = {
  name: workbookName
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

resource appOnServiceBus 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(serviceBus.id, appPrincipalId, ids.serviceBusDataSender)
  scope: serviceBus
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.serviceBusDataSender)
  }
}

resource appOnVault 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(vault.id, appPrincipalId, ids.keyVaultSecretsUser)
  scope: vault
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.keyVaultSecretsUser)
  }
}

resource appOnInsights 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, appPrincipalId, ids.monitoringMetricsPublisher)
  scope: insights
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.monitoringMetricsPublisher)
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

resource operatorOnVault 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(operatorPrincipalId)) {
  name: guid(vault.id, operatorPrincipalId, ids.keyVaultSecretsOfficer)
  scope: vault
  properties: {
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.keyVaultSecretsOfficer)
  }
}

// `listen` makes subscriptions and rules, and removes them.
resource operatorOnServiceBus 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(operatorPrincipalId)) {
  name: guid(serviceBus.id, operatorPrincipalId, ids.serviceBusDataOwner)
  scope: serviceBus
  properties: {
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.serviceBusDataOwner)
  }
}

// Logs, metrics, and the workbook that shows them.
resource operatorOnWorkspace 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(operatorPrincipalId)) {
  name: guid(workspace.id, operatorPrincipalId, ids.monitoringReader)
  scope: workspace
  properties: {
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.monitoringReader)
  }
}

resource operatorOnWorkbook 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(operatorPrincipalId)) {
  name: guid(workbook.id, operatorPrincipalId, ids.monitoringReader)
  scope: workbook
  properties: {
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.monitoringReader)
  }
}
