# A worker with containerd 2. The image has containerd, its unit, and a config.toml that imports conf.d; the site has the
# rest: the sandbox image, a mirror, CDI, and on machines with NVIDIA GPUs their runtime.
locals {
  nvidia = where(stage.detect-hw.node.gpus, { vendor = "nvidia" })
}

cluster {
  servers        = ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]
  ca_cert_hashes = ["sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"]
  token          = credential("bootstrap-token")
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}

stage "write" "kubelet" {
  runtime {
    sandbox_image = "registry.site3.example/pause:3.10"

    registry "docker.io" {
      server = "https://registry-1.docker.io"
      host "https://mirror.site3.example" {
        ca = "/etc/ssl/certs/site3.pem"
      }
    }

    cdi {} # devices of device plugins and DRA drivers

    handler "nvidia" { # for pods with runtimeClassName: nvidia
      when = length(local.nvidia) > 0
      options = {
        BinaryName    = "/usr/bin/nvidia-container-runtime"
        SystemdCgroup = true
      }
    }
  }
}

# containerd, and then the kubelet. Both are judged.
stage "restart" "containerd" {
  unit    = "containerd.service"
  timeout = "2m"
}

stage "restart" "kubelet" {}
