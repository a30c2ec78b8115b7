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
run "the address of the nodes' network" {
  hardware = "../../testdata/hardware/facts/two-sockets.json" # its first interface is in another network
  assert { condition = node.flags["node-ip"] == "192.0.2.20" }
}
run "no address yet" {
  hardware     = "../../testdata/hardware/facts/32em64t-2n8c+1mic.json"
  expect_error = "precondition"
}
