stage "write" "kubelet" {}
stage "restart" "kubelet" {
  taint_credential = "node-taints"
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
