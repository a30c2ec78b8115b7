# A worker of a kubeadm cluster as a site really has it: a zone from the kernel command line, a role for schedulers,
# reserved resources with a floor, a taint until its storage is there.
prelet {
  required_version = ">= 0.1"
}

variable "zone" {
  type        = string
  default     = "az1-r01"
  description = "Failure zone of the rack; prelet.var.zone= on the kernel command line"
  validation {
    condition     = can(regex("^[a-z]{2}[0-9]-r[0-9]{2}$", var.zone))
    error_message = "zone must look like az1-r07."
  }
}

locals {
  node = stage.detect-hw.node
  fast = [for n in local.node.nics : n if n.speed_gbps != null && coalesce(n.speed_gbps, 0) >= 25]
}

cluster {
  servers        = ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}

stage "reserve" "node" {
  policy = "gke"
  floor  = { memory = "1Gi" }
}

stage "label" "site" {
  labels = {
    "topology.kubernetes.io/zone"   = var.zone
    "topology.kubernetes.io/region" = split("-", var.zone)[0]
    "site.example.com/product"      = slug(local.node.product.name)
    "site.example.com/network"      = length(local.fast) > 0 ? "fast" : "slow"
  }
}

stage "taint" "storage" {
  taints = ["readiness.k8s.io/storage:NoSchedule"]
}

stage "write" "kubelet" {
  kubelet_config {
    patch = {
      serializeImagePulls             = false
      maxParallelImagePulls           = 4
      shutdownGracePeriod             = "30s"
      shutdownGracePeriodCriticalPods = "10s"
    }
  }
  file "sysctl" {
    path    = "/etc/sysctl.d/90-kubelet.conf"
    content = <<-EOT
      vm.overcommit_memory = 1
      kernel.panic = 10
    EOT
  }
}

stage "restart" "kubelet" {
  verify {
    settle  = "10s"
    timeout = "2m"
  }
}
