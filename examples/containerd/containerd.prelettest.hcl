run "a machine with GPUs" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"

  assert { condition = plan.complete && plan.degraded == [] }
  assert { condition = strcontains(node.files["/etc/containerd/conf.d/90-prelet.toml"].content, "nvidia-container-runtime") }
  assert { condition = strcontains(node.files["/etc/containerd/certs.d/docker.io/hosts.toml"].content, "mirror.site3") }
}

run "a machine without GPUs" {
  hardware = "../../testdata/hardware/facts/bare-vm.json"

  assert { condition = !strcontains(node.files["/etc/containerd/conf.d/90-prelet.toml"].content, "nvidia") }
}
