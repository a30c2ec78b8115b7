# A node of a cloud: the provider's flags, its id from the firmware, and a configuration with a password.
locals {
  node = stage.detect-hw.node
}

variable "region" {
  type    = string
  default = "r1"
}

cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}

stage "write" "kubelet" {
  kubelet_flags {
    flags = {
      cloud-provider = "external"
      provider-id    = "openstack://${var.region}/${local.node.machine_id}"
    }
  }
  file "cloud" {
    path    = "/etc/kubernetes/cloud.conf"
    content = <<-EOT
      [Global]
      region = ${jsonencode(var.region)}
      password = ${jsonencode(credential("cloud-password"))}
    EOT
  }
}
stage "restart" "kubelet" {}
