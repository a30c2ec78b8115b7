run "the old machines" {
  hardware = "../../testdata/hardware/facts/legacy-[m8]*.json"
  root     = "testdata/root"
  objects  = "../objects"
  assert { condition = node.labels["node.netease.com/pool"] == "online" }
  assert { condition = contains(node.taints, "node.netease.com/phase=online:NoSchedule") }
}

run "without its configuration" {
  hardware     = "../../testdata/hardware/facts/bare-vm.json"
  objects      = "../objects"
  expect_error = "evaluation"
}
