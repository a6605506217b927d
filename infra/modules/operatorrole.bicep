// What an operator does by docs/operations.md, and no built-in role allows alone: a role of this resource group.
// docs/security.md lists it. Redeploying, opening doors and giving roles are not part of it.
param environmentName string
param operatorPrincipalId string
param operatorPrincipalType string

var scope = resourceGroup().id

resource definition 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(scope, 'operator')
  properties: {
    // Unique in the whole tenant: other subscriptions may have an environment of this name.
    roleName: 'Queue operator (${subscription().subscriptionId}/${environmentName})'
    description: 'Restarts and stops the function app, ends signed URLs, fails storage over, reads what there is.'
    type: 'CustomRole'
    assignableScopes: [
      scope
    ]
    permissions: [
      {
        actions: [
          'Microsoft.Resources/subscriptions/resourceGroups/read'
          'Microsoft.Resources/deployments/read'
          'Microsoft.Web/sites/read'
          'Microsoft.Web/sites/config/read'
          'Microsoft.Web/sites/config/list/action'
          'Microsoft.Web/sites/restart/action'
          'Microsoft.Web/sites/start/action'
          'Microsoft.Web/sites/stop/action'
          'Microsoft.Web/serverfarms/read'
          'Microsoft.Storage/storageAccounts/read'
          'Microsoft.Storage/storageAccounts/blobServices/read'
          'Microsoft.Storage/storageAccounts/managementPolicies/read'
          'Microsoft.Storage/storageAccounts/revokeUserDelegationKeys/action'
          'Microsoft.Storage/storageAccounts/failover/action'
          'Microsoft.ServiceBus/namespaces/read'
          'Microsoft.KeyVault/vaults/read'
          'Microsoft.App/jobs/read'
          'Microsoft.App/jobs/stop/action'
          'Microsoft.Authorization/roleAssignments/read'
          'Microsoft.Insights/alertRules/read'
          'Microsoft.Insights/metricAlerts/read'
          'Microsoft.Insights/scheduledQueryRules/read'
          'Microsoft.Insights/actionGroups/read'
          'Microsoft.Consumption/budgets/read'
        ]
        notActions: []
        dataActions: []
        notDataActions: []
      }
    ]
  }
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(scope, operatorPrincipalId, 'operator')
  properties: {
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
    roleDefinitionId: definition.id
  }
}
