# A worker of a kubeadm cluster, imported from kubeadm.yaml.
#
# Before the first boot, give prelet.service the bootstrap token in a drop-in, never on a command line:
#     LoadCredential=bootstrap-token:/PATH/OF/THE/TOKEN
# `prelet validate` checks this folder anywhere. On a node, `prelet plan --config DIR` shows what would change.

cluster {
  servers        = ["https://k8s.example.com:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

node {
  name = "worker-7"  # of one node: for several, leave it out or use a variable
  ip   = "192.0.2.7" # of one node: for several, leave it out or use a variable
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }

locals {
  kubelet_settings = {
    clusterDomain            = null
    containerRuntimeEndpoint = "unix:///var/run/crio/crio.sock"
    evictionHard = {
      "memory.available" = "200Mi"
      "nodefs.available" = "5%"
    }
    evictionSoft = null
    kubeReserved = {
      memory = "1Gi"
    }
    maxPods      = 70
    podPidsLimit = 4096
  }
}

stage "label" "site" {
  labels = {
    "example.com/pool" = "gpu"
    "example.com/zone" = "z1"
  }
}

stage "taint" "site" {
  taints = [
    "example.com/gpu=true:NoSchedule",
    "example.com/new:NoExecute",
  ]
}

stage "write" "kubelet" {
  kubelet_config { patch = local.kubelet_settings }
  file "instance-config" { # `kubeadm upgrade node` keeps these settings
    path    = "/var/lib/kubelet/instance-config.yaml"
    content = yamlencode(local.kubelet_settings)
  }
  kubelet_flags {
    flags = {
      feature-gates = "AllAlpha=false,AllBeta=false"
      v             = "2"
    }
  }
}

stage "restart" "kubelet" {}
