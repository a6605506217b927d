// A network with a subnet for the app's instances, two for private endpoints and one for workers.
param name string
param location string
param tags object
param addressPrefix string

var subnets = {
  app: cidrSubnet(addressPrefix, 25, 0)
  endpoints: cidrSubnet(addressPrefix, 27, 4)
  // Apart from those that workers use.
  events: cidrSubnet(addressPrefix, 27, 5)
  workers: cidrSubnet(addressPrefix, 26, 3)
}
// What tasks run is anybody's code. They reach the internet, as the workers do; of this network and of those that it is
// peered with they reach storage and the app alone, and the vault, since the platform fetches a job's secrets that way.
var workerRules = [
  {
    name: 'among-workers'
    direction: 'Outbound'
    access: 'Allow'
    protocol: '*'
    from: subnets.workers
    to: subnets.workers
    port: '*'
  }
  {
    name: 'to-endpoints'
    direction: 'Outbound'
    access: 'Allow'
    protocol: 'Tcp'
    from: subnets.workers
    to: subnets.endpoints
    port: '443'
  }
  {
    name: 'to-dns'
    direction: 'Outbound'
    access: 'Allow'
    protocol: '*'
    from: '*'
    to: '168.63.129.16'
    port: '53'
  }
  {
    name: 'to-nothing-else-here'
    direction: 'Outbound'
    access: 'Deny'
    protocol: '*'
    from: '*'
    to: 'VirtualNetwork'
    port: '*'
  }
  {
    name: 'from-workers'
    direction: 'Inbound'
    access: 'Allow'
    protocol: '*'
    from: subnets.workers
    to: subnets.workers
    port: '*'
  }
  {
    name: 'from-the-load-balancer'
    direction: 'Inbound'
    access: 'Allow'
    protocol: '*'
    from: 'AzureLoadBalancer'
    to: '*'
    port: '*'
  }
  {
    name: 'from-nobody-else-here'
    direction: 'Inbound'
    access: 'Deny'
    protocol: '*'
    from: 'VirtualNetwork'
    to: '*'
    port: '*'
  }
]

resource ofWorkers 'Microsoft.Network/networkSecurityGroups@2025-05-01' = {
  name: '${name}-workers'
  location: location
  tags: tags
  properties: {
    securityRules: [for (rule, index) in workerRules: {
      name: rule.name
      properties: {
        priority: 100 + 10 * index
        direction: rule.direction
        access: rule.access
        protocol: rule.protocol
        sourceAddressPrefix: rule.from
        sourcePortRange: '*'
        destinationAddressPrefix: rule.to
        destinationPortRange: rule.port
      }
    }]
  }
}

resource network 'Microsoft.Network/virtualNetworks@2025-05-01' = {
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
          addressPrefix: subnets.app
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
          addressPrefix: subnets.endpoints
          privateEndpointNetworkPolicies: 'Disabled'
          defaultOutboundAccess: false
        }
      }
      {
        name: 'events'
        properties: {
          addressPrefix: subnets.events
          privateEndpointNetworkPolicies: 'Disabled'
          defaultOutboundAccess: false
        }
      }
      {
        name: 'workers'
        properties: {
          addressPrefix: subnets.workers
          networkSecurityGroup: {
            id: ofWorkers.id
          }
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
