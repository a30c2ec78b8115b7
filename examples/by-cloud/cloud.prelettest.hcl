run "EC2" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"
  root     = "testdata/node"
  assert { condition = node.labels["topology.kubernetes.io/zone"] == "eu-central-1a" && length(node.taints) == 1 }
}
