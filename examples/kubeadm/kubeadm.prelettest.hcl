run "zone of the rack" {
  hardware  = "../../testdata/hardware/facts/two-sockets.json"
  variables = { zone = "az2-r03" }
  assert { condition = node.labels["topology.kubernetes.io/zone"] == "az2-r03" }
}
