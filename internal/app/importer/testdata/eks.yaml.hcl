# A node of the EKS cluster my-cluster, imported from eks.yaml (NodeConfig of nodeadm).
#
# `prelet validate` checks this folder anywhere. On a node, `prelet plan --config DIR` shows what would change.

variable "node_name" {
  type        = string
  description = "The instance's id, which EKS wants as the node's name"
}

variable "provider_id" {
  type        = string
  description = "aws:///ZONE/INSTANCE"
  validation {
    condition     = startswith(var.provider_id, "aws:///")
    error_message = "provider_id must look like aws:///us-west-2a/i-0123456789abcdef0."
  }
}

variable "region" {
  type        = string
  default     = "eu-west-1"
  description = "The cluster's region"
}

node {
  name = var.node_name
}

stage "detect-hw" "node" {}
stage "reserve" "node" {
  policy   = "eks"
  max_pods = 58
}

stage "label" "site" {
  labels = {
    "example.com/pool" = "gpu"
  }
}

stage "taint" "site" {
  taints = [
    "example.com/gpu=true:NoSchedule",
  ]
}

stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false } # the kubelet gets a token from IAM at each request
  ca_certificate {
    content = <<-EOT
-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIBATAKBggqhkjOPQQDAjBAMT4wPAYDVQQDDDVrdWJlcm5l
dGVzIChwcmVsZXQgZXhhbXBsZXM7IGl0cyBrZXkgd2FzIHRocm93biBhd2F5KTAg
Fw0yNjAxMDEwMDAwMDBaGA8yMTI2MDEwMTAwMDAwMFowQDE+MDwGA1UEAww1a3Vi
ZXJuZXRlcyAocHJlbGV0IGV4YW1wbGVzOyBpdHMga2V5IHdhcyB0aHJvd24gYXdh
eSkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQLFnvjAzyXLvWpZqG7CI1ch3yc
fig6BlroXm9Ky+nAZKSdo0hFOX0L3dgD4Bvpq8qQ43Zu1I1J/bxsMW6q67Rgo0Iw
QDAOBgNVHQ8BAf8EBAMCAgQwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUKxG+
3kP+QiPnony6ceYdu/q3kQgwCgYIKoZIzj0EAwIDSAAwRQIgGj5wpTG+KatsJ5/U
d2lXXMaXT9cED4FgFzg2rvmaHOsCIQDZQmjwYu/Ab5hqmiLV+zUbXiD1AXyN/26Q
0580MUPCow==
-----END CERTIFICATE-----
EOT

  }
  kubelet_config {
    base = yamlencode({
      address    = "0.0.0.0"
      apiVersion = "kubelet.config.k8s.io/v1beta1"
      authentication = {
        anonymous = {
          enabled = false
        }
        webhook = {
          cacheTTL = "2m0s"
          enabled  = true
        }
        x509 = {
          clientCAFile = "/etc/kubernetes/pki/ca.crt"
        }
      }
      authorization = {
        mode = "Webhook"
        webhook = {
          cacheAuthorizedTTL   = "5m0s"
          cacheUnauthorizedTTL = "30s"
        }
      }
      cgroupDriver             = "systemd"
      cgroupRoot               = "/"
      clusterDNS               = ["10.100.0.10"]
      clusterDomain            = "cluster.local"
      containerRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
      evictionHard = {
        "memory.available"  = "100Mi"
        "nodefs.available"  = "10%"
        "nodefs.inodesFree" = "5%"
      }
      hairpinMode = "hairpin-veth"
      kind        = "KubeletConfiguration"
      logging = {
        verbosity = 2
      }
      protectKernelDefaults = true
      readOnlyPort          = 0
      serializeImagePulls   = false
      serverTLSBootstrap    = true
      tlsCipherSuites       = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384"]
    })
    patch = merge({ providerID = var.provider_id }, {
      featureGates = {
        AllAlpha = false
      }
      shutdownGracePeriod             = "30s"
      shutdownGracePeriodCriticalPods = "10s"
    })
  }
  kubelet_flags {
    flags = {
      cloud-provider = "external"
      kubeconfig     = "/var/lib/kubelet/kubeconfig"
      v              = "2"
    }
  }
  file "kubeconfig" {
    path = "/var/lib/kubelet/kubeconfig"
    mode = "0600"
    content = yamlencode({
      apiVersion      = "v1"
      kind            = "Config"
      current-context = "kubelet"
      clusters        = [{ name = "kubernetes", cluster = { server = "https://0123456789abcdef0123456789abcdef.gr7.eu-west-1.eks.amazonaws.com:443", certificate-authority = "/etc/kubernetes/pki/ca.crt" } }]
      contexts        = [{ name = "kubelet", context = { cluster = "kubernetes", user = "kubelet" } }]
      users = [{ name = "kubelet", user = { exec = {
        apiVersion = "client.authentication.k8s.io/v1beta1"
        command    = "aws"
        args       = ["eks", "get-token", "--cluster-name", "my-cluster", "--region", var.region]
      } } }]
    })
  }
}

stage "restart" "kubelet" {}
