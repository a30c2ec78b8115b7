stage "write" "kubelet" {
  kubelet_config {
    patch = {
      maxPods       = 64
      evictionHard  = { "memory.available" = "200Mi" }
      kubeReserved  = { cpu = "100m", memory = "0.25Gi" }
      syncFrequency = "90s"
      @MORE@
    }
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
    @CREDENTIAL@
  }
}
