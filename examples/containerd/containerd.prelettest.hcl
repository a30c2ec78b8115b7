run "a machine with GPUs" {
  hardware = "../../testdata/hardware/facts/dgx-h100.json"

  assert { condition = plan.complete && plan.degraded == [] }
  assert { condition = strcontains(node.files["/etc/containerd/conf.d/90-site.toml"].content, "SystemdCgroup = true") }
  assert { condition = strcontains(node.files["/etc/containerd/conf.d/91-nvidia.toml"].content, "nvidia-container-runtime") }
  assert { condition = strcontains(node.files["/etc/containerd/certs.d/docker.io/hosts.toml"].content, "mirror.site3") }
}

run "a machine without GPUs" {
  hardware = "../../testdata/hardware/facts/bare-vm.json"

  assert { condition = !contains(keys(node.files), "/etc/containerd/conf.d/91-nvidia.toml") }
}
