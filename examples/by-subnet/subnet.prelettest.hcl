run "the first zone" {
  hardware = "../../testdata/hardware/facts/bare-vm.json"
  assert { condition = node.labels["topology.kubernetes.io/zone"] == "az1" }
}
run "the second zone" {
  hardware = "../../testdata/hardware/facts/two-sockets.json"
  assert { condition = node.labels["topology.kubernetes.io/zone"] == "az2" }
}
run "no default route" {
  hardware = "../../testdata/hardware/facts/legacy-82599.json"
  assert { condition = !contains(keys(node.labels), "topology.kubernetes.io/zone") }
}
