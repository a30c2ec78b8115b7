# The node's address is the one in the network of the nodes.
locals {
  addresses = flatten([for i in values(stage.detect-hw.node.interfaces) : i.ipv4])
  node_ips  = [for a in local.addresses : a if anytrue([for n in keys(local.zones) : cidrcontains(n, a)])]
}

node { ip = try(local.node_ips[0], null) } # the first one
stage "restart" "kubelet" {
  precondition { # systemd tries again (exit 30): DHCP may be late
    condition     = length(local.node_ips) > 0
    error_message = "No interface has an address in a network of the nodes yet."
  }
}
