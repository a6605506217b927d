// Who may do what. Ids come from infra/roles.json and nowhere else; docs/security.md says what each is for.
param serviceBusName string
param keyVaultName string
param applicationInsightsName string
param workspaceName string
param identityName string
@description('Empty: no operator.')
param operatorPrincipalId string
param operatorPrincipalType string

var ids = loadJsonContent('../roles.json')

resource app 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: identityName
}

resource serviceBus 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: serviceBusName
}

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' existing = {
  name: keyVaultName
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-07-01' existing = {
  name: workspaceName
}

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' existing = {
  name: guid(workspace.id, 'queue')
}

resource appOnServiceBus 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(serviceBus.id, app.id, ids.serviceBusDataSender)
  scope: serviceBus
  properties: {
    principalId: app.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.serviceBusDataSender)
  }
}

resource appOnVault 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(vault.id, app.id, ids.keyVaultSecretsUser)
  scope: vault
  properties: {
    principalId: app.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.keyVaultSecretsUser)
  }
}

resource appOnInsights 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, app.id, ids.monitoringMetricsPublisher)
  scope: insights
  properties: {
    principalId: app.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.monitoringMetricsPublisher)
  }
}

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
