# What init-k8s-node.py did, step by step, without its faults.
locals {
  init = stage.fetch-config.init.value
  port = stage.fetch-config.port.value # null when the node has no port.conf
  base = stage.fetch-config.vm.data
  hw   = stage.detect-hw.node

  log_dir = try(regex("--log-dir[= ]([^\\s\"\\\\]+)", local.base["default-kubelet"])[0], null)

  interface = try(local.init.listenInterface, null)
  address   = local.interface == null ? null : local.hw.interfaces[local.interface].ipv4[0]

  nvidia = where(local.hw.gpus, { vendor = "nvidia" })
  vm     = try(local.labels["beta.kubernetes.io/instance-type"], "") == "virtualMachine"
  labels = {
    for kv in compact([for s in split(",", try(local.init.nodeLabels, "")) : trimspace(s)]) :
    split("=", kv)[0] => try(split("=", kv)[1], "")
  }

  # The first family of the script's list that is there decides. A ConnectX-4 Lx is named by the speed of the first link that is
  # up: with none there is no label, whatever other cards there are.
  cards  = compact([for n in local.hw.nics : n.device])
  x710   = ["8086:1572", "8086:1581", "8086:1586", "8086:1589", "8086:15ff"]
  speeds = [for n in local.hw.nics : n.speed_gbps if n.device == "15b3:1015" && n.speed_gbps != null]
  nic = (
    contains(local.cards, "15b3:1015") ? try("mlnx-${local.speeds[0]}G", "none") :
    anytrue([for c in local.cards : contains(["8086:158a", "8086:158b"], c)]) ? "intel-25G" : # XXV710
    anytrue([for c in local.cards : contains(local.x710, c)]) ? "intel-10G" :
    contains(local.cards, "8086:10fb") ? "intel-10G" : # 82599
    "none"
  )
  sriov = local.nic != "none" && local.hw.detectors.ovs.state == "ok" && try(local.hw.detectors.ovs.attributes.dpdk, false)
}

cluster {
  servers        = [startswith(local.server, "https://") ? local.server : "https://${local.server}"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

node { # null: as the base has it
  name = local.address
  ip   = local.address
}

locals {
  server = jsondecode(file("/etc/kubernetes/init-config")).apiserver
}

detector "ovs" {
  allow {
    sockets = ["/run/openvswitch/db.sock"]
    groups  = ["prelet-ovs"] # whom the drop-in of the detector's package lets connect
  }
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "init" { file = "/etc/kubernetes/init-config" }
stage "fetch-config" "port" {
  file     = "/etc/kubernetes/port.conf"
  optional = true
}
stage "fetch-config" "vm" {
  config_map = "kube-system/kubelet-config-${try(local.init.k8s_version, "1.11")}"
}
stage "detect-hw" "node" {}

stage "reserve" "node" {
  policy = "remainder"
  remainder {
    cpus   = try(local.init.resources.cpuRemained, null)
    memory = try(local.init.resources.memoryReserved, null)
  }
}

stage "label" "site" {
  labels = merge(local.labels, {
    "network.netease.com/kube-proxy"       = "lb-masquerade"
    "node.netease.com/port_id"             = try(local.port.id, null)
    "network.netease.com/single-subnet-id" = local.vm ? try(local.port.fixed_ips[0].subnet_id, null) : null
  })
}
stage "label" "gpu" {
  when   = length(local.nvidia) > 0
  labels = { accelerator = "nvidia-${slug(local.nvidia[0].model)}" }
}
stage "label" "sriov" {
  when   = local.sriov
  labels = { "network.netease.com/sriov-type" = local.nic }
}
stage "taint" "site" {
  taints = compact([for t in split(",", try(local.init.nodeTaints, "")) : trimspace(t)])
}
stage "taint" "gpu" {
  when   = length(local.nvidia) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}
stage "taint" "sriov" {
  when   = local.sriov
  taints = ["network.netease.com/sriov-type=${local.nic}:NoSchedule"]
}

stage "write" "kubelet" {
  kubelet_config {
    base  = local.base["vm-kubelet-config"]
    patch = local.address == null ? {} : { address = local.address }
  }
  kubelet_flags {
    base     = local.base["default-kubelet"]
    path     = "/etc/default/kubelet"
    variable = "KUBELET_EXTRA_ARGS"
  }
  file "resolv-conf" {
    when        = can(yamldecode(local.base["vm-kubelet-config"]).resolvConf)
    path        = try(yamldecode(local.base["vm-kubelet-config"]).resolvConf, null)
    content     = ""
    create_only = true
  }
  directory "kubelet-log" {
    when = local.log_dir != null
    path = local.log_dir
  }
}
stage "restart" "kubelet" {}
