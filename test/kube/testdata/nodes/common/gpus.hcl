# The Node has a condition with a check of a file. Its kubelet updates its status each second.
stage "write" "kubelet" {
  kubelet_config { patch = { nodeStatusUpdateFrequency = "1s", nodeStatusReportFrequency = "1s" } }
}
stage "restart" "kubelet" {
  condition "example.com/GPUReady" {
    check {
      condition     = trimspace(file("/etc/gpus")) == "8"
      error_message = "Only ${trimspace(file("/etc/gpus"))} of 8 GPUs"
    }
  }
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
