stage "label" "x" {
  labels = { "example.com/pool" = "@POOL@" }
}
stage "write" "kubelet" {}
stage "restart" "kubelet" {
  annotations { revision = "@REVISION@" }
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
