// Private endpoints of what the app uses, and the DNS zones by which it finds them.
param prefix string
param location string
param tags object
param networkId string
param subnetId string
@description('What gets an endpoint: name (also the service\'s name for this door), target, zone.')
param endpoints array

resource zones 'Microsoft.Network/privateDnsZones@2020-06-01' = [for endpoint in endpoints: {
  name: endpoint.zone
  location: 'global'
  tags: tags
}]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = [for (endpoint, i) in endpoints: {
  parent: zones[i]
  name: 'app'
  location: 'global'
  tags: tags
  properties: {
    registrationEnabled: false
    virtualNetwork: {
      id: networkId
    }
  }
}]

resource privateEndpoints 'Microsoft.Network/privateEndpoints@2024-05-01' = [for endpoint in endpoints: {
  name: '${prefix}-${endpoint.name}'
  location: location
  tags: tags
  properties: {
    subnet: {
      id: subnetId
    }
    privateLinkServiceConnections: [
      {
        name: endpoint.name
        properties: {
          privateLinkServiceId: endpoint.target
          groupIds: [
            endpoint.name
          ]
        }
      }
    ]
  }
}]

resource groups 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-05-01' = [for (endpoint, i) in endpoints: {
  parent: privateEndpoints[i]
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: endpoint.name
        properties: {
          privateDnsZoneId: zones[i].id
        }
      }
    ]
  }
}]
