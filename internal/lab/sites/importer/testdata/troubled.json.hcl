# The site of the nodes that init-k8s-node.py set up, imported from troubled.json.
#
# Before the first boot, give prelet.service the bootstrap token in a drop-in, never on a command line:
#     LoadCredential=bootstrap-token:/PATH/OF/THE/TOKEN
# `prelet validate` checks this folder anywhere. On a node, `prelet plan --config DIR` shows what would change.

variable "interface" {
  type        = string
  default     = "bond0"
  description = "Its first IPv4 address is the node's name and address"
}

cluster {
  servers        = ["https://k8s.site3.example:443"] # several are tried in this order
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config-1.11" }
stage "fetch-config" "port" {
  file     = "/etc/kubernetes/port.conf"
  optional = true
}
stage "detect-hw" "node" {}

locals {
  hw   = stage.detect-hw.node
  base = stage.fetch-config.kubelet.data
  port = stage.fetch-config.port.value # null on a node without port.conf

  address = try(local.hw.interfaces[var.interface].ipv4[0], null)
}

node {
  name = local.address
  ip   = local.address
}

stage "reserve" "node" {
  policy = "remainder"
  remainder {
    memory = "8%" # of whole GiB, half kubeReserved, half systemReserved
  }
}

stage "label" "site" {
  labels = {
    "accelerator"                    = "nvidia-t4"
    "pool"                           = "b"
    "network.netease.com/sriov-type" = "none"
    "network.netease.com/kube-proxy" = "lb-masquerade"
    "node.netease.com/port_id"       = try(local.port.id, null) # null is no label
  }
}

stage "taint" "site" {
  taints = [
    "nvidia.com/gpu=present:NoSchedule",
    "network.netease.com/sriov-type=none:NoSchedule",
    "a=b:NoExecute",
  ]
}

stage "write" "kubelet" {
  kubelet_config {
    base  = local.base["vm-kubelet-config"]
    patch = try(node.kubelet_config.address, "") == "0.0.0.0" ? { address = local.address } : {}
  }
  kubelet_flags {
    base   = local.base["default-kubelet"]
    path   = "/etc/default/kubelet"
    taints = "flag" # registerWithTaints came with 1.23
  }
  file "resolv-conf" {
    when        = try(node.kubelet_config.resolvConf, null) != null
    path        = try(node.kubelet_config.resolvConf, null)
    content     = ""
    create_only = true
  }
  directory "kubelet-log" {
    when = try(node.flags["log-dir"], null) != null
    path = try(node.flags["log-dir"], null)
  }
}

stage "restart" "kubelet" {
  precondition {
    condition     = local.address != null
    error_message = "Interface ${var.interface} has no IPv4 address. Name another one: prelet.var.interface= on the kernel command line."
  }
  precondition {
    condition     = trimspace(local.base["default-kubelet"]) != ""
    error_message = "The ConfigMap's default-kubelet is empty: the kubelet would start without its flags."
  }
}
