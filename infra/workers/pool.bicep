// The workers of one task queue: a job that starts a worker for each unresolved task, and none when there is none.
// Its two secrets and its image exist before: docs/workers-azure.md.
@description('provisionerId/workerType. One job for each: two would both start workers for the same tasks.')
param taskQueueId string

@description('Root URL of the deployment, exactly as the bewit was signed for: https, no path. Empty: the function app\'s own.')
param rootUrl string

@description('Function app, in this resource group, whose URL it is; with a root URL it is not looked at.')
param appName string = ''

@description('Names of the identity and of the job.')
param identityName string
param name string
param location string
param tags object = {}

@description('Container Apps environment: environment.bicep.')
param environmentId string

@description('Key Vault, in this resource group, that has the worker\'s access token and the scaler\'s bewit.')
param keyVaultName string

@description('The worker\'s image, with its tag or digest.')
@minLength(1)
param image string

@description('Container registry, in this resource group, that the image is in. Empty: anybody may pull it.')
param registryName string = ''

@description('Values in place of those of defaults.json, by their names there.')
param settings object = {}

var sizes = union(loadJsonContent('defaults.json'), settings)
var roles = loadJsonContent('../roles.json')
// As tools/admin/worker_clients.py names them: no two task queues alike, although such names have neither case nor `_` and `/`.
var spelled = replace(replace(replace(taskQueueId, '-', '--'), '_', '-1'), '/', '-2')
var url = empty(rootUrl) ? 'https://${app!.properties.defaultHostName}' : rootUrl
var letters = map(range(0, length(spelled)), at => substring(spelled, at, 1))
var secretPrefix = 'worker-${join(map(letters, letter => letter == toLower(letter) ? letter : '-${toLower(letter)}'), '')}'

resource app 'Microsoft.Web/sites@2025-03-01' existing = if (empty(rootUrl)) {
  name: appName
}

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' existing = {
  name: keyVaultName
}

resource accessToken 'Microsoft.KeyVault/vaults/secrets@2026-02-01' existing = {
  parent: vault
  name: '${secretPrefix}-access-token'
}

resource bewit 'Microsoft.KeyVault/vaults/secrets@2026-02-01' existing = {
  parent: vault
  name: '${secretPrefix}-bewit'
}

resource registry 'Microsoft.ContainerRegistry/registries@2025-11-01' existing = if (!empty(registryName)) {
  name: registryName
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: identityName
  location: location
  tags: tags
}

// Of the vault it may read these two, and no secret of the service or of another task queue.
resource readsAccessToken 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(accessToken.id, identity.id, roles.keyVaultSecretsUser)
  scope: accessToken
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.keyVaultSecretsUser)
  }
}

resource readsBewit 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(bewit.id, identity.id, roles.keyVaultSecretsUser)
  scope: bewit
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.keyVaultSecretsUser)
  }
}

resource pulls 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(registryName)) {
  name: guid(registry.id, identity.id, roles.acrPull)
  scope: registry
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.acrPull)
  }
}

resource job 'Microsoft.App/jobs@2026-01-01' = {
  name: name
  location: location
  tags: union(tags, {
    'task-queue': taskQueueId
  })
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    environmentId: environmentId
    workloadProfileName: 'Consumption'
    configuration: {
      triggerType: 'Event'
      replicaTimeout: sizes.replicaTimeout
      // The queue retries runs itself: a replica that is started again would be a worker that nobody counted.
      replicaRetryLimit: 0
      // The identity fetches the image and the secrets; tasks in the container cannot use it.
      identitySettings: [
        {
          identity: identity.id
          lifecycle: 'None'
        }
      ]
      registries: empty(registryName) ? [] : [
        {
          server: '${registryName}.${loadJsonContent('../suffixes.json').registry}'
          identity: identity.id
        }
      ]
      secrets: [
        {
          name: 'access-token'
          keyVaultUrl: '${vault.properties.vaultUri}secrets/${accessToken.name}'
          identity: identity.id
        }
        {
          name: 'bewit'
          keyVaultUrl: '${vault.properties.vaultUri}secrets/${bewit.name}'
          identity: identity.id
        }
      ]
      eventTriggerConfig: {
        parallelism: sizes.parallelism
        replicaCompletionCount: sizes.parallelism
        scale: {
          minExecutions: sizes.minExecutions
          maxExecutions: sizes.maxExecutions
          pollingInterval: sizes.pollingInterval
          rules: [
            {
              name: 'load'
              type: 'metrics-api'
              // No query in the URL: it would no longer be what the bewit signs once the key is added to it.
              metadata: {
                url: '${url}/api/queue/v1/task-queues/${replace(taskQueueId, '/', '%2F')}/load'
                valueLocation: sizes.valueLocation
                targetValue: string(sizes.parallelism)
                authMode: 'apiKey'
                method: 'query'
                keyParamName: 'bewit'
              }
              auth: [
                {
                  secretRef: 'bewit'
                  triggerParameter: 'apiKey'
                }
              ]
            }
          ]
        }
      }
    }
    template: {
      containers: [
        {
          name: 'worker'
          image: image
          resources: {
            cpu: json(sizes.cpu)
            memory: sizes.memory
          }
          env: [
            {
              name: 'TASKCLUSTER_ROOT_URL'
              value: url
            }
            {
              name: 'TASKCLUSTER_CLIENT_ID'
              value: 'worker/${taskQueueId}'
            }
            // The image's processes are root's, and tasks another user's, who cannot read their environment. A file of a
            // secret volume every user of the container could read.
            {
              name: 'TASKCLUSTER_ACCESS_TOKEN'
              secretRef: 'access-token'
            }
            {
              name: 'WORKER_TASK_QUEUE_ID'
              value: taskQueueId
            }
            {
              name: 'WORKER_GROUP'
              value: sizes.workerGroup
            }
            {
              name: 'WORKER_IDLE_TIMEOUT'
              value: string(sizes.idleTimeout)
            }
            // Needs no scope beyond the two of the client. A worker that ends when idle does not wait for long.
            {
              name: 'WORKER_POLL_MODE'
              value: 'claim-work'
            }
          ]
        }
      ]
    }
  }
  dependsOn: [
    readsAccessToken
    readsBewit
    pulls
  ]
}

output jobName string = job.name
output identityPrincipalId string = identity.properties.principalId
