// A whole deployment: `azd up`, or `az deployment sub create --template-file infra/main.bicep`.
// What each parameter is for: infra/README.md.
targetScope = 'subscription'

@description('Name of the deployment. Names of resources are made from it.')
@minLength(1)
@maxLength(64)
param environmentName string

@description('Azure region. Flex Consumption is not in all of them: infra/README.md.')
@metadata({
  azd: {
    type: 'location'
  }
})
param location string

@description('How much it has to carry: infra/profiles/<profile>.json, explained in docs/scaling.md.')
@allowed([
  'small'
  'large'
])
param profile string = 'small'

@description('Values in place of those of the profile, by their names there.')
param profileOverrides object = {}

@description('App settings in place of their defaults (docs/settings.md), by name.')
param settingOverrides object = {}

@description('Root URL that clients use, if not the function app\'s own: a custom domain, https, no path.')
param rootUrl string = ''

@description('What the version endpoint tells: a tag or a commit.')
param appVersion string = 'unknown'

@description('Prefix of the topics\' names, such as exchange/taskcluster-queue/v1/')
param topicPrefix string = ''

@description('Let everybody read public/ artifacts straight from the storage account, without a signature.')
param publicArtifacts bool = false

@description('Where else they can be read without a signature: a CDN in front of the container.')
param publicArtifactBaseUrl string = ''

@description('Take relayed uploads with an app of their own: for workers that state no length, such as scriptworker. docs/artifacts.md.')
param uploadsApp bool = false

@description('Send notifications that tasks ask for, by mail and chat, with an app of their own. docs/ecosystem.md.')
param notifyApp bool = false

@description('What it may send: mailDomains, clientId, chat, and settings by name. docs/ecosystem.md.')
param notify object = {}

@description('Application id with which people sign in to the console. Empty: nobody can. docs/console.md.')
param openidClientId string = ''

@description('Issuer of the OpenID Connect provider, as its tokens name it. Empty: Entra ID, this tenant.')
param openidIssuer string = ''

@description('The provider\'s name on the button, and in the client ids login/<name>/<user>.')
param openidName string = 'entra'

@description('What the console asks the provider for.')
param openidScopes string = 'openid profile offline_access'

@description('The claim that names a person for good.')
param openidUserClaim string = 'oid'

@description('Who may do what: pairs value=role separated by spaces.')
param openidRoles string = ''

@description('Issuer of ID tokens with which workloads sign in, such as jobs of GitHub Actions. Empty: none can. docs/security-auth.md.')
param openidWorkloadIssuer string = ''

@description('How the roles of workloads begin: <name>:<subject of the token>.')
param openidWorkloadName string = 'github'

@description('Access token of the root client. Empty: the vault keeps the one that it has.')
@secure()
param rootAccessToken string = ''

@description('Keys that sign pending messages. Empty: as above.')
@secure()
param messageSigningKeys string = ''

@description('Keys that encrypt access tokens. Empty: as above.')
@secure()
param accessTokenKeys string = ''

@description('While the root token is being rotated: accept claims signed with the vault\'s root-access-token-previous.')
param acceptPreviousRootToken bool = false

@description('Sign URLs with the storage account\'s key, kept in the vault: only where Azure cannot delegate keys for queues.')
param signWithAccountKey bool = false

@description('Who deploys: azd knows. A user becomes the operator if no other one is named.')
param principalId string = ''

@description('What that is: a pipeline\'s identity does not become the operator.')
param principalType string = ''

@description('Object id of an operator (user or group) who may read and repair the data. Empty: the user who deploys. none: nobody.')
param operatorPrincipalId string = ''

@description('What the operator is.')
@allowed([
  'User'
  'Group'
  'ServicePrincipal'
])
param operatorPrincipalType string = 'User'

@description('Who receives alerts: addresses, separated by commas.')
param alertEmails string = ''

@description('Put the app into a virtual network, and reach its services by private endpoints. Closing any door below implies it.')
param virtualNetwork bool = false

@description('Address space of the virtual network (a /24 or larger).')
param virtualNetworkPrefix string = '10.60.0.0/16'

@description('Whether the public network reaches the function app.')
@allowed([
  'Enabled'
  'Disabled'
])
param appPublicAccess string = 'Enabled'

@description('Whether the public network reaches the storage account. Workers and browsers use its signed URLs.')
@allowed([
  'Enabled'
  'Disabled'
])
param storagePublicAccess string = 'Enabled'

@description('Addresses that reach the storage account from the public network, as CIDR. Empty: all.')
param storageAllowedAddresses array = []

@description('Whether the public network reaches Service Bus, for those who listen to events. Only Premium can refuse it.')
@allowed([
  'Enabled'
  'Disabled'
])
param serviceBusPublicAccess string = 'Enabled'

@description('Whether the public network reaches the Key Vault.')
@allowed([
  'Enabled'
  'Disabled'
])
param keyVaultPublicAccess string = 'Enabled'

@description('Sites whose scripts may read artifacts straight from the storage account.')
param artifactCorsOrigins array = [
  '*'
]

@description('Task queues, separated by commas, that get workers here: docs/workers-azure.md.')
param workers string = ''

@description('Image of the workers, with its tag or digest.')
param workerImage string = ''

@description('Container registry in the resource group that the image is pulled from. Empty: anybody may pull it.')
param workerRegistry string = ''

@description('By task queue: values in place of those of workers/defaults.json, by their names there.')
param workerOverrides object = {}

@description('Id of a storage account that is taken as it is, in place of a new one: docs/operations.md, loss of a region. Empty: a new one.')
param storageAccountId string = ''

@description('What a month may cost, in the currency of the subscription\'s bills; who gets alerts is told when it is spent. 0: no budget.')
@minValue(0)
param monthlyBudget int = 0

@description('The first of the month in which the budget was made: 2026-01-01. Azure refuses another one later.')
param budgetStart string = ''

@description('Tags of all resources.')
param tags object = {}

@description('Names in place of the generated ones, by the keys of abbreviations.json.')
param names object = {}

var abbreviations = loadJsonContent('abbreviations.json')
var suffixes = loadJsonContent('suffixes.json')
var profiles = {
  small: loadJsonContent('profiles/small.json')
  large: loadJsonContent('profiles/large.json')
}
var scale = union(profiles[profile], profileOverrides)
// Behind a closed door the app needs the network as its way in.
var closed = appPublicAccess == 'Disabled' || storagePublicAccess == 'Disabled' || !empty(storageAllowedAddresses) || keyVaultPublicAccess == 'Disabled' || (scale.serviceBusSku == 'Premium' && serviceBusPublicAccess == 'Disabled')
var inNetwork = virtualNetwork || closed
var deployer = principalType == 'User' ? principalId : ''
var operator = operatorPrincipalId == 'none' ? '' : !empty(operatorPrincipalId) ? operatorPrincipalId : deployer
// Roles are written by people alone: a pipeline may assign those of roles.json, and define none.
var definesRoles = !empty(operator) && !empty(deployer)
var takesStorage = !empty(storageAccountId)
var token = toLower(uniqueString(subscription().id, environmentName, location))
var generated = {
  resourceGroup: '${abbreviations.resourceGroup}${environmentName}'
  identity: '${abbreviations.identity}${token}'
  deploymentIdentity: '${abbreviations.deploymentIdentity}${token}'
  storage: '${abbreviations.storage}${token}'
  serviceBus: '${abbreviations.serviceBus}${token}'
  keyVault: '${abbreviations.keyVault}${token}'
  logAnalytics: '${abbreviations.logAnalytics}${token}'
  applicationInsights: '${abbreviations.applicationInsights}${token}'
  plan: '${abbreviations.plan}${token}'
  functionApp: '${abbreviations.functionApp}${token}'
  uploadsPlan: '${abbreviations.plan}uploads-${token}'
  uploadsApp: '${abbreviations.functionApp}uploads-${token}'
  notifyPlan: '${abbreviations.plan}notify-${token}'
  notifyApp: '${abbreviations.functionApp}notify-${token}'
  notifyIdentity: '${abbreviations.identity}notify-${token}'
  notifyStorage: '${abbreviations.storage}notify${token}'
  communication: '${abbreviations.communication}${token}'
  emailService: '${abbreviations.emailService}${token}'
  virtualNetwork: '${abbreviations.virtualNetwork}${token}'
  privateEndpoint: '${abbreviations.privateEndpoint}${token}'
  actionGroup: '${abbreviations.actionGroup}${token}'
  alert: '${abbreviations.alert}${token}'
  workerEnvironment: '${abbreviations.workerEnvironment}${token}'
}
var resourceNames = union(generated, names)
var groupId = '${subscription().id}/resourceGroups/${resourceNames.resourceGroup}'
// Computed, and not read from outputs: what-if leaves out a module whose parameters are known only when another is there.
var ids = {
  workspace: '${groupId}/providers/Microsoft.OperationalInsights/workspaces/${resourceNames.logAnalytics}'
  network: '${groupId}/providers/Microsoft.Network/virtualNetworks/${resourceNames.virtualNetwork}'
  serviceBus: '${groupId}/providers/Microsoft.ServiceBus/namespaces/${resourceNames.serviceBus}'
  keyVault: '${groupId}/providers/Microsoft.KeyVault/vaults/${resourceNames.keyVault}'
  functionApp: '${groupId}/providers/Microsoft.Web/sites/${resourceNames.functionApp}'
  uploadsApp: '${groupId}/providers/Microsoft.Web/sites/${resourceNames.uploadsApp}'
  notifyApp: '${groupId}/providers/Microsoft.Web/sites/${resourceNames.notifyApp}'
  notifyStorage: '${groupId}/providers/Microsoft.Storage/storageAccounts/${resourceNames.notifyStorage}'
  workerEnvironment: '${groupId}/providers/Microsoft.App/managedEnvironments/${resourceNames.workerEnvironment}'
}
var storageName = takesStorage ? last(split(storageAccountId, '/')) : resourceNames.storage
var storageId = takesStorage ? storageAccountId : '${groupId}/providers/Microsoft.Storage/storageAccounts/${storageName}'
var peopleSignIn = empty(openidClientId) ? {} : {
  OPENID_ISSUER: empty(openidIssuer) ? 'https://${suffixes.login}/${tenant().tenantId}/v2.0' : openidIssuer
  OPENID_CLIENT_ID: openidClientId
  OPENID_NAME: openidName
  OPENID_SCOPES: openidScopes
  OPENID_USER_CLAIM: openidUserClaim
  OPENID_ROLES: openidRoles
}
var workloadsSignIn = empty(openidWorkloadIssuer) ? {} : {
  OPENID_WORKLOAD_ISSUER: openidWorkloadIssuer
  OPENID_WORKLOAD_NAME: openidWorkloadName
}
var notifies = union({
  mailDomains: []
  mailDataLocation: 'Europe'
  clientId: ''
  chat: false
  settings: {}
}, notify)
var mails = notifyApp && !empty(notifies.mailDomains)
var notifierSecrets = 'https://${resourceNames.keyVault}.${suffixes.vault}/secrets/notify-'
var pools = filter(map(split(workers, ','), taskQueueId => trim(taskQueueId)), taskQueueId => !empty(taskQueueId))
var allTags = union(tags, {
  'azd-env-name': environmentName
})

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {
  name: resourceNames.resourceGroup
  location: location
  tags: allTags
}

module deploymentIdentity 'modules/identity.bicep' = {
  scope: group
  name: 'deployment-identity'
  params: {
    name: resourceNames.deploymentIdentity
    location: location
    tags: allTags
  }
}

module identity 'modules/identity.bicep' = {
  scope: group
  name: 'identity'
  params: {
    name: resourceNames.identity
    location: location
    tags: allTags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  scope: group
  name: 'monitoring'
  params: {
    logAnalyticsName: resourceNames.logAnalytics
    applicationInsightsName: resourceNames.applicationInsights
    location: location
    tags: allTags
    retentionDays: scale.logRetentionDays
    dailyCapGb: scale.logDailyCapGb
  }
}

module network 'modules/network.bicep' = if (inNetwork) {
  scope: group
  name: 'network'
  params: {
    name: resourceNames.virtualNetwork
    location: location
    tags: allTags
    addressPrefix: virtualNetworkPrefix
  }
}

module storage 'modules/storage.bicep' = if (!takesStorage) {
  scope: group
  name: 'storage'
  params: {
    name: resourceNames.storage
    location: location
    tags: allTags
    sku: scale.storageSku
    allowSharedKeys: signWithAccountKey
    publicArtifacts: publicArtifacts
    publicAccess: storagePublicAccess
    allowedAddresses: storageAllowedAddresses
    corsOrigins: artifactCorsOrigins
    softDeleteDays: scale.blobSoftDeleteDays
    coolAfterDays: scale.artifactCoolAfterDays
    deleteAfterDays: scale.artifactDeleteAfterDays
  }
}

module serviceBus 'modules/servicebus.bicep' = {
  scope: group
  name: 'servicebus'
  params: {
    name: resourceNames.serviceBus
    location: location
    tags: allTags
    sku: scale.serviceBusSku
    capacity: scale.serviceBusCapacity
    publicAccess: serviceBusPublicAccess
    topicPrefix: topicPrefix
    duplicateWindow: scale.duplicateWindow
    timeToLive: scale.eventTimeToLive
    workspaceId: ids.workspace
  }
  dependsOn: [
    monitoring
  ]
}

module keyVault 'modules/keyvault.bicep' = {
  scope: group
  name: 'keyvault'
  params: {
    name: resourceNames.keyVault
    location: location
    tags: allTags
    publicAccess: keyVaultPublicAccess
    workspaceId: ids.workspace
    rootAccessToken: rootAccessToken
    messageSigningKeys: messageSigningKeys
    accessTokenKeys: accessTokenKeys
    storageAccountName: signWithAccountKey && !takesStorage ? storageName : ''
  }
  dependsOn: [
    monitoring
    storage
  ]
}

module endpoints 'modules/endpoints.bicep' = if (inNetwork) {
  scope: group
  name: 'endpoints'
  params: {
    prefix: resourceNames.privateEndpoint
    location: location
    tags: allTags
    networkId: ids.network
    endpoints: concat([
      {
        name: 'blob'
        target: storageId
        zone: 'privatelink.blob.${suffixes.storage}'
        subnet: 'endpoints'
      }
      {
        name: 'queue'
        target: storageId
        zone: 'privatelink.queue.${suffixes.storage}'
        subnet: 'endpoints'
      }
      {
        name: 'table'
        target: storageId
        zone: 'privatelink.table.${suffixes.storage}'
        subnet: 'endpoints'
      }
      {
        name: 'vault'
        target: ids.keyVault
        zone: 'privatelink.${suffixes.vaultZone}'
        subnet: 'endpoints'
      }
    ], notifyApp ? [
      {
        name: 'blob-notify'
        target: ids.notifyStorage
        zone: 'privatelink.blob.${suffixes.storage}'
        subnet: 'endpoints'
      }
    ] : [], scale.serviceBusSku == 'Premium' ? [
      {
        name: 'namespace'
        target: ids.serviceBus
        zone: 'privatelink.${suffixes.serviceBus}'
        subnet: 'events'
      }
    ] : [])
  }
  dependsOn: [
    network
    storage
    notifyStorage
    keyVault
    serviceBus
  ]
}

// Nothing is written into the group of an account that is taken: its roles are granted by python3 -m tools.local.deployments.
module storageRoles 'modules/storageroles.bicep' = if (!takesStorage) {
  scope: group
  name: 'storage-roles'
  params: {
    storageName: storageName
    identityName: resourceNames.identity
    deploymentIdentityName: resourceNames.deploymentIdentity
    operatorPrincipalId: operator
    operatorPrincipalType: empty(operatorPrincipalId) ? 'User' : operatorPrincipalType
  }
  dependsOn: [
    storage
    identity
    deploymentIdentity
  ]
}

module operatorRole 'modules/operatorrole.bicep' = if (definesRoles) {
  scope: group
  name: 'operator-role'
  params: {
    environmentName: environmentName
    operatorPrincipalId: operator
    operatorPrincipalType: empty(operatorPrincipalId) ? 'User' : operatorPrincipalType
  }
}

module roles 'modules/roles.bicep' = {
  scope: group
  name: 'roles'
  params: {
    serviceBusName: resourceNames.serviceBus
    keyVaultName: resourceNames.keyVault
    applicationInsightsName: resourceNames.applicationInsights
    identityName: resourceNames.identity
    workspaceName: resourceNames.logAnalytics
    operatorPrincipalId: operator
    operatorPrincipalType: empty(operatorPrincipalId) ? 'User' : operatorPrincipalType
  }
  dependsOn: [
    identity
    serviceBus
    keyVault
    monitoring
  ]
}

// The same package with other settings, on instances of its own, so that no upload takes anything from a call.
module uploads 'modules/app.bicep' = if (uploadsApp) {
  scope: group
  name: 'uploads'
  params: {
    planName: resourceNames.uploadsPlan
    name: resourceNames.uploadsApp
    serviceName: 'uploads'
    serves: 'uploads'
    uploadsRootUrl: ''
    location: location
    tags: allTags
    scale: union(scale, scale.uploads)
    settingOverrides: {}
    identityName: resourceNames.identity
    deploymentIdentityName: resourceNames.deploymentIdentity
    storageName: storageName
    serviceBusName: resourceNames.serviceBus
    keyVaultName: resourceNames.keyVault
    applicationInsightsName: resourceNames.applicationInsights
    subnetId: inNetwork ? '${ids.network}/subnets/app' : ''
    publicAccess: appPublicAccess
    rootUrl: ''
    appVersion: appVersion
    topicPrefix: topicPrefix
    publicArtifactBaseUrl: ''
    acceptPreviousRootToken: acceptPreviousRootToken
    signWithAccountKey: signWithAccountKey
  }
  dependsOn: [
    identity
    deploymentIdentity
    roles
    storageRoles
    endpoints
  ]
}

module app 'modules/app.bicep' = {
  scope: group
  name: 'app'
  params: {
    planName: resourceNames.plan
    name: resourceNames.functionApp
    serviceName: 'queue'
    serves: 'calls'
    uploadsRootUrl: uploadsApp ? 'https://${resourceNames.uploadsApp}.${suffixes.app}' : ''
    location: location
    tags: allTags
    scale: scale
    settingOverrides: union(peopleSignIn, workloadsSignIn, settingOverrides)
    identityName: resourceNames.identity
    deploymentIdentityName: resourceNames.deploymentIdentity
    storageName: storageName
    serviceBusName: resourceNames.serviceBus
    keyVaultName: resourceNames.keyVault
    applicationInsightsName: resourceNames.applicationInsights
    subnetId: inNetwork ? '${ids.network}/subnets/app' : ''
    publicAccess: appPublicAccess
    rootUrl: rootUrl
    appVersion: appVersion
    topicPrefix: topicPrefix
    publicArtifactBaseUrl: !empty(publicArtifactBaseUrl) ? publicArtifactBaseUrl : publicArtifacts ? 'https://${storageName}.blob.${suffixes.storage}/public-artifacts' : ''
    acceptPreviousRootToken: acceptPreviousRootToken
    signWithAccountKey: signWithAccountKey
  }
  dependsOn: [
    identity
    deploymentIdentity
    roles
    storageRoles
    operatorRole
    endpoints
    uploads
  ]
}

module notifyIdentity 'modules/identity.bicep' = if (notifyApp) {
  scope: group
  name: 'notify-identity'
  params: {
    name: resourceNames.notifyIdentity
    location: location
    tags: allTags
  }
}

// Its own account: whoever takes it over reaches neither tasks nor the keys and the package of the service.
module notifyStorage 'modules/storage.bicep' = if (notifyApp) {
  scope: group
  name: 'notify-storage'
  params: {
    name: resourceNames.notifyStorage
    location: location
    tags: allTags
    sku: scale.storageSku
    allowSharedKeys: false
    packagesAlone: true
    publicArtifacts: false
    publicAccess: storagePublicAccess
    allowedAddresses: storageAllowedAddresses
    corsOrigins: []
    softDeleteDays: scale.blobSoftDeleteDays
    coolAfterDays: 0
    deleteAfterDays: 0
  }
}

module notifyNeeds 'modules/notify.bicep' = if (notifyApp) {
  scope: group
  name: 'notify-needs'
  params: {
    serviceBusName: resourceNames.serviceBus
    topicPrefix: topicPrefix
    timeToLive: scale.eventTimeToLive
    keyVaultName: resourceNames.keyVault
    secrets: concat(empty(notifies.clientId) ? [] : ['notify-access-token'], notifies.chat ? ['notify-channels'] : [])
    applicationInsightsName: resourceNames.applicationInsights
    storageName: resourceNames.notifyStorage
    identityName: resourceNames.notifyIdentity
    communicationName: mails ? resourceNames.communication : ''
    emailServiceName: mails ? resourceNames.emailService : ''
    mailDataLocation: notifies.mailDataLocation
    tags: allTags
  }
  dependsOn: [
    serviceBus
    keyVault
    monitoring
    notifyStorage
    notifyIdentity
  ]
}

module notifier 'modules/app.bicep' = if (notifyApp) {
  scope: group
  name: 'notifier'
  params: {
    planName: resourceNames.notifyPlan
    name: resourceNames.notifyApp
    serviceName: 'notify'
    serves: 'notifications'
    communicationName: mails ? resourceNames.communication : ''
    emailServiceName: mails ? resourceNames.emailService : ''
    notifies: union({
      MAIL_DOMAINS: join(notifies.mailDomains, ',')
      DENIED: ''
      CHANNELS: notifies.chat ? '@Microsoft.KeyVault(SecretUri=${notifierSecrets}channels/)' : ''
      TASKCLUSTER_CLIENT_ID: notifies.clientId
      TASKCLUSTER_ACCESS_TOKEN: empty(notifies.clientId) ? '' : '@Microsoft.KeyVault(SecretUri=${notifierSecrets}access-token/)'
    }, notifies.settings)
    uploadsRootUrl: ''
    location: location
    tags: allTags
    scale: union(scale, {
      instanceMemoryMB: 512
      maximumInstanceCount: 40
      alwaysReady: []
      zoneRedundant: false
    })
    settingOverrides: {}
    identityName: resourceNames.notifyIdentity
    deploymentIdentityName: resourceNames.notifyIdentity
    storageName: resourceNames.notifyStorage
    serviceBusName: resourceNames.serviceBus
    keyVaultName: resourceNames.keyVault
    applicationInsightsName: resourceNames.applicationInsights
    subnetId: inNetwork ? '${ids.network}/subnets/app' : ''
    publicAccess: appPublicAccess
    rootUrl: empty(rootUrl) ? 'https://${resourceNames.functionApp}.${suffixes.app}' : rootUrl
    appVersion: appVersion
    topicPrefix: topicPrefix
    publicArtifactBaseUrl: ''
    acceptPreviousRootToken: false
    signWithAccountKey: false
  }
  dependsOn: [
    notifyNeeds
    endpoints
  ]
}

// Without public access this is the only way to the app, and to the site that packages are put by.
module appEndpoint 'modules/endpoints.bicep' = if (appPublicAccess == 'Disabled') {
  scope: group
  name: 'app-endpoint'
  params: {
    prefix: resourceNames.privateEndpoint
    location: location
    tags: allTags
    networkId: ids.network
    endpoints: concat([
      {
        name: 'sites'
        target: ids.functionApp
        zone: 'privatelink.${suffixes.app}'
        subnet: 'endpoints'
      }
    ], uploadsApp ? [
      {
        name: 'sites-uploads'
        target: ids.uploadsApp
        zone: 'privatelink.${suffixes.app}'
        subnet: 'endpoints'
      }
    ] : [], notifyApp ? [
      {
        name: 'sites-notify'
        target: ids.notifyApp
        zone: 'privatelink.${suffixes.app}'
        subnet: 'endpoints'
      }
    ] : [])
  }
  dependsOn: [
    app
    notifier
  ]
}

module workerEnvironment 'workers/environment.bicep' = if (!empty(pools)) {
  scope: group
  name: 'worker-environment'
  params: {
    name: resourceNames.workerEnvironment
    location: location
    tags: allTags
    workspaceId: ids.workspace
    subnetId: inNetwork ? '${ids.network}/subnets/workers' : ''
    zoneRedundant: scale.zoneRedundant
  }
  dependsOn: [
    monitoring
    network
  ]
}

module workerPools 'workers/pool.bicep' = [for taskQueueId in pools: {
  scope: group
  name: '${abbreviations.worker}${uniqueString(token, taskQueueId)}'
  params: {
    taskQueueId: taskQueueId
    rootUrl: rootUrl
    appName: resourceNames.functionApp
    name: '${abbreviations.worker}${uniqueString(token, taskQueueId)}'
    identityName: '${abbreviations.identity}${abbreviations.worker}${uniqueString(token, taskQueueId)}'
    location: location
    tags: allTags
    environmentId: ids.workerEnvironment
    keyVaultName: resourceNames.keyVault
    image: workerImage
    registryName: workerRegistry
    settings: workerOverrides[?taskQueueId] ?? {}
  }
  dependsOn: [
    app
    workerEnvironment
    keyVault
  ]
}]

module alerts 'modules/alerts.bicep' = {
  scope: group
  name: 'alerts'
  params: {
    actionGroupName: resourceNames.actionGroup
    prefix: resourceNames.alert
    location: location
    tags: allTags
    emails: filter(map(split(alertEmails, ','), email => trim(email)), email => !empty(email))
    workspaceId: ids.workspace
    serviceBusId: ids.serviceBus
    storageId: storageId
    thresholds: scale.alerts
    monthlyBudget: monthlyBudget
    budgetStart: budgetStart
    notifies: notifyApp
  }
  dependsOn: [
    monitoring
    serviceBus
    storage
  ]
}

output AZURE_RESOURCE_GROUP string = group.name
output AZURE_LOCATION string = location
output AZURE_FUNCTION_APP_NAME string = resourceNames.functionApp
output AZURE_UPLOADS_APP_NAME string = uploadsApp ? resourceNames.uploadsApp : ''
output AZURE_NOTIFY_APP_NAME string = notifyApp ? resourceNames.notifyApp : ''
output AZURE_KEY_VAULT_NAME string = resourceNames.keyVault
output TASKCLUSTER_ROOT_URL string = app.outputs.rootUrl
output STORAGE_ACCOUNT_NAME string = storageName
output STORAGE_ACCOUNT_ID string = storageId
output TOPIC_PREFIX string = topicPrefix
output SERVICEBUS_NAMESPACE string = '${resourceNames.serviceBus}.${suffixes.serviceBus}'
