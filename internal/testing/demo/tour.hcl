# The site of the demo: a GPU node of a training cluster.
variable "zone" {
  type = string
  validation {
    condition     = can(regex("^[a-z]{2}[0-9]-r[0-9]{2}$", var.zone))
    error_message = "zone must look like az1-r07."
  }
}

locals {
  hw     = stage.detect-hw.node
  nvidia = where(local.hw.gpus, { vendor = "nvidia" })
}

cluster {
  servers        = ["SERVER"]
  ca_cert_hashes = ["PIN"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}

stage "reserve" "node" {
  policy   = "gke"
  max_pods = 64
  topology {
    cores  = 4
    spread = "numa"
  }
}

stage "label" "site" {
  labels = { "topology.kubernetes.io/zone" = var.zone }
}

stage "label" "gpu" {
  when = length(local.nvidia) > 0
  labels = {
    "accelerator"           = "nvidia-${slug(local.nvidia[0].model)}"
    "gpu.example.com/count" = length(local.nvidia)
  }
}

stage "taint" "gpu" {
  when   = length(local.nvidia) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}

stage "write" "kubelet" {
  kubelet_config {
    patch = {
      cpuManagerPolicy      = "static"
      topologyManagerPolicy = "best-effort"
    }
  }
}

stage "restart" "kubelet" {}
