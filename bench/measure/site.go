package measure

import "fmt"

// WorkerStages are those of a kubeadm worker with a GPU's label and taint.
const WorkerStages = `
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
`

// Site returns the text of a site: the block of the cluster, and stages.
func (s *Server) Site(stages string) string {
	return fmt.Sprintf(`cluster {
  servers        = [%q]
  ca_cert_hashes = [%q]
  token          = credential("bootstrap-token")
}
%s`, s.URL, s.CAHash, stages)
}
