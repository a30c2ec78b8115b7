run "any machine" {
  hardware = "../../testdata/hardware/facts/[bt][aw]*.json" # bare-vm and two-sockets
  assert { condition = plan.complete && plan.degraded == [] }
  assert { condition = node.files["/etc/kubernetes/bootstrap-kubelet.conf"].sensitive }
  assert { condition = node.kubelet_config.clusterDNS == ["10.96.0.10"] }
}
