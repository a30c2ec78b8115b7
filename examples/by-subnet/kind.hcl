# The zone is that of the network in which the node's own address is.
locals {
  zones = {
    "198.51.100.0/24" = "az1"
    "192.0.2.0/24"    = "az2"
  }
  address = stage.detect-hw.node.default_route.ipv4.source
  zone = local.address == null ? null : one(
    [for network, zone in local.zones : zone if cidrcontains(network, local.address)]
  )
}

stage "label" "zone" {
  labels = { "topology.kubernetes.io/zone" = local.zone } # null, so no label, in other networks
}
