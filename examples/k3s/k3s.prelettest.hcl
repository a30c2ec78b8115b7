run "a machine with GPUs" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"

  assert { condition = plan.complete }
  assert { condition = keys(node.files) == ["/etc/rancher/k3s/config.yaml.d/90-prelet.yaml", "/etc/rancher/k3s/prelet.conf"] }
  assert {
    condition = yamldecode(node.files["/etc/rancher/k3s/config.yaml.d/90-prelet.yaml"].content) == {
      "kubelet-arg+" = ["config=/etc/rancher/k3s/prelet.conf"]
      "node-label+"  = ["example.com/kind=gpu"]
      "node-taint+"  = ["example.com/gpu=yes:NoSchedule"]
    }
  }
  assert { condition = yamldecode(node.files["/etc/rancher/k3s/prelet.conf"].content).kubeReserved == stage.reserve.node.kube_reserved }
}
