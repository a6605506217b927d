// What the notifier needs beside its app: subscriptions, an account for its package, mail, and its roles (docs/ecosystem.md).
param serviceBusName string
param topicPrefix string
@description('How long an event waits for the notifier (ISO 8601).')
param timeToLive string
param keyVaultName string
@description('Names of secrets of the vault that it may read. They are put there before.')
param secrets array
param applicationInsightsName string
param storageName string
param identityName string
@description('Communication Services and its email service. Empty: no mail.')
param communicationName string
param emailServiceName string
param mailDataLocation string
param tags object

var ids = loadJsonContent('../roles.json')
var entities = loadJsonContent('../entities.json')
// The host's, and that of its package: the identity that writes the Queue's package is not this app's.
var used = concat(entities.hostContainers, entities.platformContainers)
var ofTasks = [
  'task-defined'
  'task-pending'
  'task-running'
  'task-completed'
  'task-failed'
  'task-exception'
]
var names = concat(ofTasks, ['task-group-resolved'])

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: identityName
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' existing = {
  name: keyVaultName
}

resource storage 'Microsoft.Storage/storageAccounts@2025-08-01' existing = {
  name: storageName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-08-01' existing = {
  parent: storage
  name: 'default'
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-08-01' existing = [for container in used: {
  parent: blobs
  name: container
}]

resource serviceBus 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: serviceBusName
}

resource topics 'Microsoft.ServiceBus/namespaces/topics@2026-01-01' existing = [for topic in names: {
  parent: serviceBus
  name: replace('${topicPrefix}${topic}', '/', '~')
}]

resource subscriptions 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2026-01-01' = [for (topic, index) in names: {
  parent: topics[index]
  name: 'notify'
  properties: {
    maxDeliveryCount: 30
    lockDuration: 'PT5M'
    defaultMessageTimeToLive: timeToLive
    deadLetteringOnMessageExpiration: true
  }
}]

// In place of the rule that a subscription has by default, which takes every message. A group's messages have no routes.
resource rules 'Microsoft.ServiceBus/namespaces/topics/subscriptions/rules@2026-01-01' = [for (topic, index) in ofTasks: {
  parent: subscriptions[index]
  name: '$Default'
  properties: {
    filterType: 'SqlFilter'
    sqlFilter: {
      sqlExpression: 'routes LIKE \'%|.notify.%\''
    }
  }
}]

resource receives 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (topic, index) in names: {
  name: guid(subscriptions[index].id, identity.id, ids.serviceBusDataReceiver)
  scope: subscriptions[index]
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.serviceBusDataReceiver)
  }
}]

resource kept 'Microsoft.KeyVault/vaults/secrets@2026-02-01' existing = [for secret in secrets: {
  parent: vault
  name: secret
}]

resource readsSecrets 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (secret, index) in secrets: {
  name: guid(vault.id, secret, identity.id, ids.keyVaultSecretsUser)
  scope: kept[index]
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.keyVaultSecretsUser)
  }
}]

resource onInsights 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, identity.id, ids.monitoringMetricsPublisher)
  scope: insights
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.monitoringMetricsPublisher)
  }
}

resource onContainers 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (container, index) in used: {
  name: guid(storage.id, container, identity.id, ids.storageBlobDataOwner)
  scope: containers[index]
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.storageBlobDataOwner)
  }
}]

resource emailService 'Microsoft.Communication/emailServices@2026-03-18' = if (!empty(communicationName)) {
  name: emailServiceName
  location: 'global'
  tags: tags
  properties: {
    dataLocation: mailDataLocation
  }
}

resource domain 'Microsoft.Communication/emailServices/domains@2026-03-18' = if (!empty(communicationName)) {
  parent: emailService
  name: 'AzureManagedDomain'
  location: 'global'
  tags: tags
  properties: {
    domainManagement: 'AzureManaged'
    userEngagementTracking: 'Disabled'
  }
}

resource communication 'Microsoft.Communication/communicationServices@2026-03-18' = if (!empty(communicationName)) {
  name: communicationName
  location: 'global'
  tags: tags
  properties: {
    dataLocation: mailDataLocation
    disableLocalAuth: true
    linkedDomains: [
      domain.id
    ]
  }
}

// Azure has no narrower role that sends mail, and takes none of one's own for it: on this resource alone.
resource sends 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(communicationName)) {
  name: guid(communication.id, identity.id, ids.communicationOwner)
  scope: communication
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids.communicationOwner)
  }
}
