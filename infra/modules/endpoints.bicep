// Private endpoints of what the app uses, and the DNS zones by which it finds them.
param prefix string
param location string
param tags object
param networkId string
@description('What gets an endpoint: name (the service\'s name for this door, and after a dash of which one), target, zone, subnet.')
param endpoints array

var ofEach = [for endpoint in endpoints: endpoint.zone]
var zoneNames = union(ofEach, [])

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [for zone in zoneNames: {
  name: zone
  location: 'global'
  tags: tags
}]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [for (zone, i) in zoneNames: {
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

resource privateEndpoints 'Microsoft.Network/privateEndpoints@2025-05-01' = [for endpoint in endpoints: {
  name: '${prefix}-${endpoint.name}'
  location: location
  tags: tags
  properties: {
    subnet: {
      id: '${networkId}/subnets/${endpoint.subnet}'
    }
    privateLinkServiceConnections: [
      {
        name: endpoint.name
        properties: {
          privateLinkServiceId: endpoint.target
          groupIds: take(split(endpoint.name, '-'), 1)
        }
      }
    ]
  }
}]

resource groups 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-05-01' = [for (endpoint, i) in endpoints: {
  parent: privateEndpoints[i]
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: endpoint.name
        properties: {
          privateDnsZoneId: zones[indexOf(zoneNames, endpoint.zone)].id
        }
      }
    ]
  }
}]
