# prelet test --config image --config site tests
run "the site wins over the image" {
  hardware  = "../../../testdata/hardware/facts/dgx-h100.json"
  root      = "../testdata/root"
  objects   = "../../objects"
  variables = { zone = "az1-r07" }
  assert { condition = node.kubelet_config.clusterDNS == ["10.97.0.10"] }
}
