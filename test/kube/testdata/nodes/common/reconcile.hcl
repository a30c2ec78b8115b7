stage "write" "kubelet" {}
stage "restart" "kubelet" {
  reconcile_labels = true
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
