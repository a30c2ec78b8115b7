# A kubelet without a cluster, with /etc/base.yaml.
@FACTS@
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = file("/etc/base.yaml")
    patch = { @MORE@ }
  }
}
