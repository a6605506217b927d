// Service Bus: a topic for each exchange. The list comes from infra/entities.json, which is written from the code.
param name string
param location string
param tags object
@allowed([
  'Standard'
  'Premium'
])
param sku string
@description('Messaging units of Premium; Standard has none.')
param capacity int
param publicAccess string
param topicPrefix string
@description('How long a repeated MessageId is recognised (ISO 8601).')
param duplicateWindow string
@description('How long a subscription keeps an event that nobody takes (ISO 8601).')
param timeToLive string
@description('Log Analytics workspace that gets the record of who connected. Premium alone makes one.')
param workspaceId string

var entities = loadJsonContent('../entities.json')

resource namespace 'Microsoft.ServiceBus/namespaces@2026-01-01' = {
  name: name
  location: location
  tags: tags
  sku: sku == 'Premium' ? {
    name: 'Premium'
    tier: 'Premium'
    capacity: capacity
  } : {
    name: 'Standard'
    tier: 'Standard'
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    publicNetworkAccess: sku == 'Premium' ? publicAccess : 'Enabled'
  }
}

#disable-next-line use-recent-api-versions // the latest that has categories of logs
resource audit 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (sku == 'Premium') {
  scope: namespace
  name: 'audit'
  properties: {
    workspaceId: workspaceId
    logs: [
      {
        category: 'RuntimeAuditLogs'
        enabled: true
      }
    ]
  }
}

// Resource names cannot have slashes: in a template `~` stands for them, and Service Bus shows them as slashes.
resource topics 'Microsoft.ServiceBus/namespaces/topics@2026-01-01' = [for topic in entities.topics: {
  parent: namespace
  name: replace('${topicPrefix}${topic}', '/', '~')
  properties: {
    requiresDuplicateDetection: true
    duplicateDetectionHistoryTimeWindow: duplicateWindow
    defaultMessageTimeToLive: timeToLive
    enableBatchedOperations: true
    maxSizeInMegabytes: 5120
  }
}]
