# An agent of k3s 1.32 or newer: docs/image-builders/k3s.md. prelet writes what k3s reads, and k3s starts the kubelet.
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }

locals {
  is_gpu = length(stage.detect-hw.node.gpus) > 0
}

stage "write" "agent" {
  ca_certificate { when = false }
  bootstrap_kubeconfig { when = false }
  kubelet_flags { when = false }

  kubelet_config {
    base = yamlencode({ apiVersion = "kubelet.config.k8s.io/v1beta1", kind = "KubeletConfiguration" })
    path = "/etc/rancher/k3s/prelet.conf"
  }

  file "k3s" {
    path = "/etc/rancher/k3s/config.yaml.d/90-prelet.yaml"
    content = yamlencode({
      "kubelet-arg+" = ["config=/etc/rancher/k3s/prelet.conf"]
      "node-label+"  = ["example.com/kind=${local.is_gpu ? "gpu" : "cpu"}"]
      "node-taint+"  = local.is_gpu ? ["example.com/gpu=yes:NoSchedule"] : []
    })
  }
}
