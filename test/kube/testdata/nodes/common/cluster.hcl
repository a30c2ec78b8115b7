cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["@PIN@"]
  token          = credential("bootstrap-token")
  retry          = "5s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
