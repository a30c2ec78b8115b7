# Changes a field, removes one and adds others of all shapes. With KEPT=true they are in kubeadm's instance-config.yaml
# too.
locals {
  settings = {
    containerRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
    maxPods                  = 64
    clusterDomain            = null
    evictionHard             = merge(stage.reserve.node.eviction_hard, { "memory.available" = "150Mi", "nodefs.available" = "6%" })
    featureGates             = { AllAlpha = false }
    podsPerCore              = 7 # as the cluster, until it changes
    kubeReserved             = stage.reserve.node.kube_reserved
  }
}
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "site" {
  labels = { "example.com/zone" = "z1" }
}
stage "write" "kubelet" {
  kubelet_config { patch = local.settings }
  file "instance-config" {
    when    = @KEPT@
    path    = "/var/lib/kubelet/instance-config.yaml"
    content = yamlencode(local.settings)
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
