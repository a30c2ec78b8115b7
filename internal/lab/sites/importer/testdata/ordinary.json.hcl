# The site of the nodes that init-k8s-node.py set up, imported from ordinary.json.
#
# Before the first boot, give prelet.service the bootstrap token in a drop-in, never on a command line:
#     LoadCredential=bootstrap-token:/PATH/OF/THE/TOKEN
# `prelet validate` checks this folder anywhere. On a node, `prelet plan --config DIR` shows what would change.

variable "interface" {
  type        = string
  default     = "eth0"
  description = "Its first IPv4 address is the node's name and address"
}

cluster {
  servers        = ["https://10.178.4.10:6443"] # several are tried in this order
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

  nvidia = where(local.hw.gpus, { vendor = "nvidia" })

  # The network card for dpdk: the first name that matches. A ConnectX-4 Lx whose link is down has no speed, so no type.
  cards  = join("\n", [for n in local.hw.nics : n.model if n.model != null])
  speeds = [for n in local.hw.nics : n.speed_gbps if n.speed_gbps != null && can(regex("MT27710", n.model))]
  sriov = try(local.hw.detectors.ovs.attributes.dpdk, "false") != "true" ? null : (
    can(regex("MT27710", local.cards)) ? (length(local.speeds) > 0 ? "mlnx-${local.speeds[0]}G" : null) :
    can(regex("XXV710", local.cards)) ? "intel-25G" :
    can(regex("X710|82599", local.cards)) ? "intel-10G" : null
  )
}

node {
  name = local.address
  ip   = local.address
}

# Says whether Open vSwitch runs with dpdk. Without Open vSwitch, remove this block and what is called sriov.
detector "ovs" {
  allow {
    sockets = ["/run/openvswitch/db.sock"]
    groups  = ["prelet-ovs"] # whom the drop-in of the detector's package lets connect
  }
}

stage "reserve" "node" {
  policy = "remainder"
  remainder {
    cpus   = 6     # these remain for pods; half of the others is kubeReserved, half systemReserved
    memory = "10%" # of whole GiB, half kubeReserved, half systemReserved
  }
}

stage "label" "site" {
  labels = {
    "beta.kubernetes.io/instance-type"     = "virtualMachine"
    "node.netease.com/pool"                = "online"
    "network.netease.com/kube-proxy"       = "lb-masquerade"
    "node.netease.com/port_id"             = try(local.port.id, null) # null is no label
    "network.netease.com/single-subnet-id" = try(local.port.fixed_ips[0].subnet_id, null)
  }
}

stage "label" "gpu" {
  when   = length(local.nvidia) > 0
  labels = { accelerator = local.nvidia[0].model == null ? null : "nvidia-${slug(local.nvidia[0].model)}" }
}

stage "label" "sriov" {
  when   = local.sriov != null
  labels = { "network.netease.com/sriov-type" = local.sriov }
}

stage "taint" "site" {
  taints = ["node.netease.com/phase=online:NoSchedule"]
}

stage "taint" "gpu" {
  when   = length(local.nvidia) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}

stage "taint" "sriov" {
  when   = local.sriov != null
  taints = ["network.netease.com/sriov-type=${local.sriov}:NoSchedule"]
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
