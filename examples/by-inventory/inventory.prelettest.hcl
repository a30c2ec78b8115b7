run "by serial number" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"
  assert { condition = node.labels["example.com/rack"] == "r07" && length(node.taints) == 1 }
}
run "by UUID" {
  hardware = "../../testdata/hardware/facts/bare-vm.json"
  assert { condition = node.labels["example.com/kind"] == "edge" && length(node.taints) == 0 }
}
run "by MAC address" {
  hardware = "../../testdata/hardware/facts/two-sockets.json"
  assert { condition = node.labels["example.com/kind"] == "storage" }
}
run "not listed" {
  hardware = "../../testdata/hardware/facts/mi300x.json"
  assert { condition = node.labels == {} }
}
