stage "write" "kubelet" {}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
