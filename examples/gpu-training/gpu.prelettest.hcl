variables {
  zone = "az1-r07"
}

run "dgx-h100" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"
  objects  = { "kube-system/kubelet-config" = { kubelet = file("testdata/kubelet-config.yaml") } }

  assert {
    condition     = node.labels["accelerator"] == "nvidia-h100-80gb-hbm3"
    error_message = "The label schedulers select on has changed."
  }
  assert { condition = contains(node.taints, "nvidia.com/gpu=true:NoSchedule") }
  assert { condition = node.kubelet_config.reservedSystemCPUs == "0-1,56-57,112-113,168-169" }
  assert { condition = !contains(keys(node.labels), "node-role.kubernetes.io/gpu") }
  assert { condition = node.files["/etc/sysctl.d/90-hugepages.conf"].content == "vm.nr_hugepages = 8192\n" }
}

run "one-gpu-fell-off-the-bus" {
  hardware  = "../../testdata/hardware/facts/dgx-h100.json"
  detectors = { nvidia = { state = "failed" } }
  without   = ["0000:1b:00.0"]
  assert { condition = contains(node.taints, "hardware.example.com/incomplete:NoSchedule") }
}

run "with-the-vendor's-driver" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"
  detectors = { nvidia = {
    facts   = { mig_enabled = true }
    devices = [{ address = "0000:1b:00.0", memory_bytes = 85899345920 }]
  } }
  assert { condition = node.labels["gpu.example.com/mig"] == "true" }
  assert { condition = node.labels["gpu.example.com/memory-gb"] == "80" }
  assert { condition = !contains(node.taints, "hardware.example.com/incomplete:NoSchedule") }
}

run "other-machines" {
  hardware = "../../testdata/hardware/facts/[mt][iw]*.json" # mi300x and two-sockets
  assert { condition = !contains(keys(node.labels), "accelerator") }
  assert { condition = node.labels["topology.kubernetes.io/zone"] == var.zone }
}

run "bad-zone" {
  hardware     = "../../testdata/hardware/facts/dgx-h100.json"
  variables    = { zone = "mars" }
  expect_error = "variable-invalid"
}
