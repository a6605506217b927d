// An identity: the app's towards everything else, or the one that packages go by. User-assigned, so that its roles exist
// before the app does.
param name string
param location string
param tags object

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}
