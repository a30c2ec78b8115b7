# A DGX takes pods only while it is whole: 8 GPUs, 8 links at 400 Gb/s, the MIG devices and virtual functions that units
# of others make before, a quick diagnosis of DCGM, and nothing that the driver still has to do.
prelet { deadline = "10m" } # longer than the stage that waits

locals {
  hw    = stage.detect-hw.node
  gpus  = local.hw.detectors.nvidia.facts
  ports = flatten([for n in local.hw.nics : n.infiniband])
  fast  = [for p in local.ports : p.device if p.state == "active" && p.rate_gbps == 400]
  vfs   = sum([for n in local.hw.nics : coalesce(n.sriov.num_vfs, 0)])
  dcgm  = local.hw.units["dcgm-quick.service"] # Type=oneshot, ExecStart=dcgmi diag -r 1
}

cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

detector "nvidia" {
  allow {
    devices = ["/dev/nvidiactl", "/dev/nvidia*"]
  }
  config {
    expected_gpus = 8
  }
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }

stage "detect-hw" "node" {
  timeout = "8m"
  wait {
    units   = ["nvidia-mig-manager.service", "sriov-vfs.service", "dcgm-quick.service"]
    drivers = ["nvidia"]
    timeout = "5m"
  }
}

stage "reserve" "node" { policy = "gke" }

# Both are removed by their owners: when the condition below is True, and when NVSentinel has validated the node.
stage "taint" "startup" {
  startup = true
  taints  = ["readiness.k8s.io/gpu-fit:NoSchedule", "nvsentinel.nvidia.com/validation-pending:NoSchedule"]
}

stage "write" "kubelet" {}

stage "restart" "kubelet" {
  hold "gpu" {
    when    = length(local.gpus.gpus_to_recover) > 0
    for     = "30m"
    message = "${join(", ", local.gpus.gpus_to_recover)}: ${local.gpus.recovery_action}"
  }
  hold "missing" {
    when    = local.gpus.gpus_complete == false
    for     = "30m"
    message = "the driver does not have 8 GPUs: journalctl -k -b -g 'NVRM|Xid'"
  }
  hold "dcgm" {
    when    = local.dcgm == "failed"
    for     = "30m"
    message = "dcgmi diag -r 1 failed: journalctl -b -u dcgm-quick.service; after the repair: systemctl restart dcgm-quick.service"
  }

  condition "example.com/GPUFit" {
    check {
      condition     = local.gpus.gpus_complete && length(local.hw.gpus) == 8
      error_message = "${length(local.hw.gpus)} of 8 GPUs"
    }
    check {
      condition     = length(local.fast) == 8
      error_message = "${length(local.fast)} of 8 links are up at 400 Gb/s: ${join(", ", local.fast)}"
    }
    check {
      condition     = lookup(local.gpus.mig_devices, "1g.10gb", 0) == 56
      error_message = "${jsonencode(local.gpus.mig_devices)} instead of 56 MIG devices 1g.10gb"
    }
    check {
      condition     = local.vfs == 64
      error_message = "${local.vfs} of 64 virtual functions"
    }
    check {
      condition     = local.gpus.row_remap_pending + local.gpus.row_remap_failed + local.gpus.mig_pending == 0
      error_message = "rows of GPU memory or a MIG mode wait for a reset, or rows have no spare"
    }
    check {
      condition     = alltrue([for unit, state in local.hw.units : contains(["done", "skipped"], state)])
      error_message = "not done: ${join(", ", [for unit, state in local.hw.units : unit if !contains(["done", "skipped"], state)])}"
    }
  }
}
