stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {}
stage "restart" "kubelet" {
  verify { settle = "1s" }
}
