# A worker of a kubeadm cluster, imported from troubled.yaml.
#
# Before the first boot, give prelet.service the bootstrap token in a drop-in, never on a command line:
#     LoadCredential=bootstrap-token:/PATH/OF/THE/TOKEN
# `prelet validate` checks this folder anywhere. On a node, `prelet plan --config DIR` shows what would change.

cluster {
  servers        = ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]
  discovery_file = "https://files.example.com/discovery.conf"
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }

stage "label" "site" {
  labels = {
    "example.com/ok" = "1"
  }
}

stage "taint" "site" {
  taints = [
    "example.com/t=1:NoSchedule",
  ]
}

stage "write" "kubelet" {
  ca_certificate { path = "/etc/kubernetes/pki/other.crt" }
  kubelet_flags {
    flags = {
      max-pods = "50"
    }
  }
}

stage "restart" "kubelet" {}
