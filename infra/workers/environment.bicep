// Where the workers of all task queues run: a Container Apps environment that costs nothing while no worker runs.
param name string
param location string
param tags object
@description('Log Analytics workspace that gets what workers print, and what the platform says of them.')
param workspaceId string
@description('Subnet, delegated to Microsoft.App/environments, /27 or larger. Empty: no network.')
param subnetId string = ''
@description('Whether it survives the loss of a zone, for which it has to be in a network. Azure refuses to change it later.')
param zoneRedundant bool = false

resource environment 'Microsoft.App/managedEnvironments@2026-01-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    // By a diagnostic setting and not by the workspace's key: the workspace refuses keys.
    appLogsConfiguration: {
      destination: 'azure-monitor'
    }
    vnetConfiguration: empty(subnetId) ? null : {
      infrastructureSubnetId: subnetId
      internal: true
    }
    zoneRedundant: zoneRedundant && !empty(subnetId)
    workloadProfiles: [
      {
        name: 'Consumption'
        workloadProfileType: 'Consumption'
      }
    ]
  }
}

#disable-next-line use-recent-api-versions // the latest that has categories of logs
resource logs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: environment
  name: 'logs'
  properties: {
    workspaceId: workspaceId
    logs: [
      {
        category: 'ContainerAppConsoleLogs'
        enabled: true
      }
      {
        category: 'ContainerAppSystemLogs'
        enabled: true
      }
    ]
  }
}

output id string = environment.id
