// A network with a subnet for the app's instances, one for private endpoints and one for workers.
param name string
param location string
param tags object
param addressPrefix string

resource network 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: [
        addressPrefix
      ]
    }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 25, 0)
          delegations: [
            {
              name: 'flex'
              properties: {
                serviceName: 'Microsoft.App/environments'
              }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 27, 4)
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
      {
        name: 'workers'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 26, 3)
          delegations: [
            {
              name: 'container-apps'
              properties: {
                serviceName: 'Microsoft.App/environments'
              }
            }
          ]
        }
      }
    ]
  }
}

output id string = network.id
output appSubnetId string = '${network.id}/subnets/app'
output workerSubnetId string = '${network.id}/subnets/workers'
output endpointSubnetId string = '${network.id}/subnets/endpoints'
