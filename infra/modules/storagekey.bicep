// Keeps the storage account's key in the vault. Only with signWithAccountKey: nothing else ever reads a key.
param vaultName string
param storageAccountName string

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' existing = {
  name: vaultName
}

resource account 'Microsoft.Storage/storageAccounts@2025-08-01' existing = {
  name: storageAccountName
}

resource key 'Microsoft.KeyVault/vaults/secrets@2026-02-01' = {
  parent: vault
  name: 'storage-account-key'
  properties: {
    value: account.listKeys().keys[0].value
  }
}
