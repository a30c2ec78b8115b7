prelet {
  required_version = ">= 0.1"
  on_cluster_error = "last-good"
  deadline         = "5m"
}

variable "zone" {
  type        = string
  description = "Failure zone of the rack; set on the kernel command line by the PXE server"
  validation {
    condition     = can(regex("^[a-z]{2}[0-9]-r[0-9]{2}$", var.zone))
    error_message = "zone must look like az1-r07."
  }
}

locals {
  hw     = stage.detect-hw.node
  nvidia = where(local.hw.gpus, { vendor = "nvidia" }) # keeps the type and the origins, which a for expression loses
  fabric = { for n in where(local.hw.nics, { vendor = "mellanox" }) : n.interface => n if n.interface != null && n.sriov.total_vfs != null }
}

cluster {
  servers        = ["https://k8s.site3.example:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

detector "nvidia" {
  required = false # absent or broken: the node joins, with the taint below
  timeout  = "8s"
  allow {
    devices = ["/dev/nvidiactl", "/dev/nvidia*"]
  }
  config {
    nvml = true # the default
  }
}

detector "mellanox" {}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }

stage "detect-hw" "node" {
  wait {
    links   = ["ib0", "ib1"] # a link that is still training is not "no link"
    timeout = "30s"
  }
}

stage "reserve" "node" {
  policy   = "gke"
  max_pods = 64
  floor    = { memory = "16Gi" }
  topology {
    cores  = 4      # whole cores, hyper-thread siblings included
    spread = "numa" # 2 on each of 2 nodes
  }
}

stage "label" "site" {
  labels = { "topology.kubernetes.io/zone" = var.zone }
}

stage "label" "gpu" {
  when = length(local.nvidia) > 0
  labels = {
    "accelerator"               = "nvidia-${slug(local.nvidia[0].model)}"
    "gpu.example.com/count"     = length(local.nvidia)
    "gpu.example.com/memory-gb" = local.nvidia[0].memory_gib # null when the driver is not up: no label
    "gpu.example.com/mig"       = try(local.hw.detectors.nvidia.facts.mig_enabled, null)
  }
}

stage "label" "vendor" {
  from_detectors = ["nvidia.com/*", "mellanox.com/*"] # which of the recommended labels are taken
}

stage "label" "fabric" {
  for_each = local.fabric
  labels   = { "fabric.example.com/${slug(each.key)}" = each.value.speed_gbps == null ? null : "${each.value.speed_gbps}g" }
}

stage "taint" "gpu" {
  when   = length(local.nvidia) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}

# A node that lost a GPU joins, but takes no training job.
stage "taint" "incomplete" {
  when   = length(local.nvidia) != 8 || local.hw.detectors.nvidia.state == "failed"
  taints = ["hardware.example.com/incomplete:NoSchedule"]
}

stage "write" "kubelet" {
  kubelet_config {
    patch = {
      cpuManagerPolicy      = "static"
      memoryManagerPolicy   = "Static"
      topologyManagerPolicy = "single-numa-node"
      reservedMemory        = stage.reserve.node.reserved_memory
      featureGates          = { DynamicResourceAllocation = true }
      allowedUnsafeSysctls  = null # a merge patch: null takes the field of the base away
    }
  }
  file "hugepages" {
    path    = "/etc/sysctl.d/90-hugepages.conf"
    content = "vm.nr_hugepages = ${length(local.hw.numa) * 4096}\n"
  }
}

stage "restart" "kubelet" {
  verify {
    settle  = "15s"
    timeout = "2m"
  }
}
