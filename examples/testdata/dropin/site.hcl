# kubeadm keeps config.yaml; what this site adds stands beside it.
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "site" {
  labels = { "topology.kubernetes.io/zone" = "az1" }
}
stage "taint" "storage" {
  taints = ["readiness.k8s.io/storage:NoSchedule"]
}
stage "write" "kubelet" {
  kubelet_config {
    layout = "drop-in"
    patch  = { serializeImagePulls = false }
  }
}
stage "restart" "kubelet" {}
