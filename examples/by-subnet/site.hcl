# The recipes are in kind.hcl and address.hcl.
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  kubelet_config { base = stage.fetch-config.kubelet.data["kubelet"] }
}
