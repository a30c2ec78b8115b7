# The site of an image for many clusters: what differs between clusters and machines is a variable, and arrives as a
# credential prelet.var.NAME. The bootstrap token is the credential bootstrap-token.

variable "api_server" {
  type        = string
  description = "URL of the API server, as in https://10.0.0.11:6443"
}

variable "ca_cert_hash" {
  type        = string
  description = "Pin of the cluster's CA, as `kubeadm token create --print-join-command` prints it"
}

variable "zone" {
  type    = string
  default = "unknown"
}

locals {
  product = stage.detect-hw.node.product
}

cluster {
  servers        = [var.api_server]
  ca_cert_hashes = [var.ca_cert_hash]
  token          = credential("bootstrap-token")
}

# An image has no hostname. This name is the same at each boot, also on another disk.
node {
  name = local.product.serial == null ? null : lower(slug(local.product.serial))
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}

stage "reserve" "node" {
  policy = "gke"
}

stage "label" "node" {
  labels = {
    "topology.kubernetes.io/zone" = var.zone
    "node.example.com/product"    = slug(local.product.name)
  }
}

stage "write" "kubelet" {
  kubelet_config {
    patch = { cgroupDriver = "systemd" }
  }
}

stage "restart" "kubelet" {}
