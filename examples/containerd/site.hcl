# A worker with containerd 2. The image has containerd, its unit, and a config.toml of version 3 that imports conf.d; the
# site has the rest: the sandbox image, a mirror, CDI, and on machines with NVIDIA GPUs their runtime.
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
  file "containerd" {
    path   = "/etc/containerd/conf.d/90-site.toml"
    notify = [stage.restart.containerd, stage.restart.kubelet]
    content = tomlencode({
      version = 3
      plugins = {
        "io.containerd.cri.v1.images" = {
          pinned_images = { sandbox = "registry.site3.example/pause:3.10" }
          registry      = { config_path = "/etc/containerd/certs.d" }
        }
        "io.containerd.cri.v1.runtime" = {
          enable_cdi = true # devices of device plugins and DRA drivers
          containerd = {
            runtimes = {
              runc = { runtime_type = "io.containerd.runc.v2", options = { SystemdCgroup = true } }
            }
          }
        }
      }
    })
  }

  file "nvidia" { # for pods with runtimeClassName: nvidia
    when   = length(local.nvidia) > 0
    path   = "/etc/containerd/conf.d/91-nvidia.toml"
    notify = [stage.restart.containerd, stage.restart.kubelet]
    content = tomlencode({
      version = 3
      plugins = {
        "io.containerd.cri.v1.runtime" = {
          containerd = {
            runtimes = {
              nvidia = {
                runtime_type = "io.containerd.runc.v2"
                options = {
                  BinaryName    = "/usr/bin/nvidia-container-runtime"
                  SystemdCgroup = true
                }
              }
            }
          }
        }
      }
    })
  }

  file "mirror" { # containerd reads it at each pull
    path = "/etc/containerd/certs.d/docker.io/hosts.toml"
    content = tomlencode({
      server = "https://registry-1.docker.io"
      host = {
        "https://mirror.site3.example" = {
          capabilities = ["pull", "resolve"]
          ca           = "/etc/ssl/certs/site3.pem"
        }
      }
    })
  }
}

# containerd, and then the kubelet. Both are judged.
stage "restart" "containerd" {
  unit    = "containerd.service"
  timeout = "2m"
}

stage "restart" "kubelet" {}
