// Logs, traces and metrics: Application Insights on a Log Analytics workspace.
param logAnalyticsName string
param applicationInsightsName string
param location string
param tags object
param retentionDays int
@description('GB a day after which nothing more is taken in; -1 for no bound.')
param dailyCapGb int

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-07-01' = {
  name: logAnalyticsName
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: retentionDays
    workspaceCapping: {
      dailyQuotaGb: dailyCapGb
    }
    features: {
      disableLocalAuth: true
    }
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: applicationInsightsName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    DisableLocalAuth: true
  }
}

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' = {
  name: guid(workspace.id, 'queue')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    displayName: 'Taskcluster Queue'
    category: 'workbook'
    sourceId: workspace.id
    serializedData: loadTextContent('../workbook.json')
  }
}
