// The secrets that are the app's own. An empty parameter leaves the secret as the vault has it.
param name string
param location string
param tags object
param publicAccess string
@secure()
param rootAccessToken string
@secure()
param messageSigningKeys string
@secure()
param accessTokenKeys string
@description('Log Analytics workspace that gets the record of who read which secret.')
param workspaceId string
@description('Storage account whose key is to be kept here; empty: none.')
param storageAccountName string

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    tenantId: tenant().tenantId
    sku: {
      family: 'A'
      name: 'standard'
    }
    enableRbacAuthorization: true
    enableSoftDelete: true
    softDeleteRetentionInDays: 90
    enablePurgeProtection: true
    publicNetworkAccess: publicAccess
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: publicAccess == 'Enabled' ? 'Allow' : 'Deny'
    }
  }
}

resource rootToken 'Microsoft.KeyVault/vaults/secrets@2026-02-01' = if (!empty(rootAccessToken)) {
  parent: vault
  name: 'root-access-token'
  properties: {
    value: rootAccessToken
  }
}

resource signingKeys 'Microsoft.KeyVault/vaults/secrets@2026-02-01' = if (!empty(messageSigningKeys)) {
  parent: vault
  name: 'message-signing-keys'
  properties: {
    value: messageSigningKeys
  }
}

resource encryptionKeys 'Microsoft.KeyVault/vaults/secrets@2026-02-01' = if (!empty(accessTokenKeys)) {
  parent: vault
  name: 'access-token-keys'
  properties: {
    value: accessTokenKeys
  }
}

#disable-next-line use-recent-api-versions // the latest that has categories of logs
resource audit 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: vault
  name: 'audit'
  properties: {
    workspaceId: workspaceId
    logs: [
      {
        categoryGroup: 'audit'
        enabled: true
      }
    ]
  }
}

module storageKey 'storagekey.bicep' = if (!empty(storageAccountName)) {
  name: 'storagekey'
  params: {
    vaultName: vault.name
    storageAccountName: storageAccountName
  }
}
