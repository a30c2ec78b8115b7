
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }

stage "label" "gpu" {
  when   = length(stage.detect-hw.node.gpus) > 0
  labels = { "accelerator" = slug(stage.detect-hw.node.gpus[0].model) }
}

stage "taint" "gpu" {
  when   = length(stage.detect-hw.node.gpus) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}

stage "write" "kubelet" {}
stage "restart" "kubelet" {}
