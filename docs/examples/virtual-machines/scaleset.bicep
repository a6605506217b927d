// Machines that run generic-worker for one task queue: docs/workers-azure.md#virtual-machines.
// az deployment group create --resource-group GROUP --template-file docs/examples/virtual-machines/scaleset.bicep
@description('provisionerId/workerType.')
param taskQueueId string

@description('Root URL of the deployment: https, no path.')
param rootUrl string

@description('Part of the scope of the workers\' client: worker-client create --worker-group.')
param workerGroup string = 'virtual-machines'

@description('Key Vault, in this resource group, that has the workers\' access token.')
param keyVaultName string

@description('Image with generic-worker, livelog and taskcluster-proxy in /usr/local/bin, and curl, jq and iptables: its id.')
param imageId string

@description('Subnet of the machines: its id. They only call out.')
param subnetId string

@description('Public key of who may look into a machine.')
param sshPublicKey string

param vmSize string = 'Standard_D4as_v5'

@description('Whether machines are cheap and may be taken away.')
param spot bool = false

@description('Machines now. scale.sh starts them; when you deploy again, give the present number: a smaller one ends some.')
@minValue(0)
param machines int = 0

param location string

var roles = loadJsonContent('../../../infra/roles.json')
// As tools/admin/worker_clients.py names it: no two task queues alike, although such names have neither case nor `_` and `/`.
var spelled = replace(replace(replace(taskQueueId, '-', '--'), '_', '-1'), '/', '-2')
var letters = map(range(0, length(spelled)), at => substring(spelled, at, 1))
var secretName = 'worker-${join(map(letters, letter => letter == toLower(letter) ? letter : '-${toLower(letter)}'), '')}-access-token'
var name = 'vmss-${uniqueString(taskQueueId)}'
var cloudInit = loadTextContent('cloud-init.yaml')
var values = {
  rootUrl: rootUrl
  taskQueueId: taskQueueId
  workerGroup: workerGroup
  secretUrl: '${vault.properties.vaultUri}secrets/${secretName}'
  identityClientId: identity.properties.clientId
  config: base64(loadTextContent('generic-worker.json'))
  script: base64(loadTextContent('start-worker.sh'))
}

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' existing = {
  name: keyVaultName
}

resource accessToken 'Microsoft.KeyVault/vaults/secrets@2026-02-01' existing = {
  parent: vault
  name: secretName
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: 'id-${name}'
  location: location
}

resource readsAccessToken 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(accessToken.id, identity.id, roles.keyVaultSecretsUser)
  scope: accessToken
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.keyVaultSecretsUser)
  }
}

resource scaleSet 'Microsoft.Compute/virtualMachineScaleSets@2026-04-01' = {
  name: name
  location: location
  tags: {
    'task-queue': taskQueueId
  }
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  sku: {
    name: vmSize
    capacity: machines
  }
  properties: {
    orchestrationMode: 'Uniform'
    overprovision: false
    singlePlacementGroup: false
    upgradePolicy: {
      mode: 'Manual'
    }
    virtualMachineProfile: {
      priority: spot ? 'Spot' : 'Regular'
      evictionPolicy: spot ? 'Delete' : null
      osProfile: {
        computerNamePrefix: 'worker'
        adminUsername: 'azureuser'
        customData: base64(replace(replace(replace(replace(replace(replace(replace(cloudInit, '{rootUrl}', values.rootUrl), '{taskQueueId}', values.taskQueueId), '{workerGroup}', values.workerGroup), '{secretUrl}', values.secretUrl), '{identityClientId}', values.identityClientId), '{config}', values.config), '{script}', values.script))
        linuxConfiguration: {
          disablePasswordAuthentication: true
          ssh: {
            publicKeys: [
              {
                path: '/home/azureuser/.ssh/authorized_keys'
                keyData: sshPublicKey
              }
            ]
          }
        }
      }
      storageProfile: {
        imageReference: {
          id: imageId
        }
        osDisk: {
          createOption: 'FromImage'
          managedDisk: {
            storageAccountType: 'StandardSSD_LRS'
          }
        }
      }
      networkProfile: {
        networkInterfaceConfigurations: [
          {
            name: 'nic'
            properties: {
              primary: true
              ipConfigurations: [
                {
                  name: 'ip'
                  properties: {
                    subnet: {
                      id: subnetId
                    }
                  }
                }
              ]
            }
          }
        ]
      }
    }
  }
  dependsOn: [
    readsAccessToken
  ]
}

output scaleSetName string = scaleSet.name
