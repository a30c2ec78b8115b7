package importer

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/site"
)

// text is the site before it is formatted. It is put together here and not by text/template: that package looks methods up
// by name, so the linker keeps every exported method of every type of the program, which was 3 MB and 2 MiB of memory for
// each start at boot.
func (p page) text() string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p.head(add)
	p.locals(add)
	p.blocks(add)
	p.labels(add)
	p.taints(add)
	p.kubelet(add)
	return b.String()
}

// add writes text, with arguments as fmt has them.
type add func(format string, args ...any)

func (p page) head(add add) {
	add(`# The site of the nodes that init-k8s-node.py set up, imported from %s.
#
# Before the first boot, give prelet.service the bootstrap token in a drop-in, never on a command line:
#     LoadCredential=%s:/PATH/OF/THE/TOKEN
# `+"`prelet validate` checks this folder anywhere. On a node, `prelet plan --config DIR`"+` shows what would change.
`, comment(p.Source), p.Credential)
	if p.Interface != "" {
		add(`
variable "interface" {
  type        = string
  default     = %s
  description = "Its first IPv4 address is the node's name and address"
}
`, site.Quote(p.Interface))
	}
	add(`
cluster {
  servers        = [%s] # several are tried in this order
  ca_cert_hashes = %s
  token          = credential(%s)
}

stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = %s }
`, site.Quote(p.Server), list(p.Hashes), site.Quote(p.Credential), site.Quote("kube-system/kubelet-config-"+p.Version))
	if p.Port || p.Subnet {
		add(`stage "fetch-config" "port" {
  file     = "/etc/kubernetes/port.conf"
  optional = true
}
`)
	}
	add(`stage "detect-hw" "node" {}
`)
}

func (p page) locals(add add) {
	add(`
locals {
  hw   = stage.detect-hw.node
  base = stage.fetch-config.kubelet.data
`)
	if p.Port || p.Subnet {
		add(`  port = stage.fetch-config.port.value # null on a node without port.conf
`)
	}
	if p.Interface != "" {
		add(`
  address = try(local.hw.interfaces[var.interface].ipv4[0], null)
`)
	}
	if p.GPULabel || p.GPUTaint {
		add(`
  nvidia = where(local.hw.gpus, { vendor = "nvidia" })
`)
	}
	if p.SRIOVLabel || p.SRIOVTaint {
		add(`
  # The network card for dpdk: the first name that matches. A ConnectX-4 Lx whose link is down has no speed, so no type.
  cards  = join("\n", [for n in local.hw.nics : n.model if n.model != null])
  speeds = [for n in local.hw.nics : n.speed_gbps if n.speed_gbps != null && can(regex("MT27710", n.model))]
  sriov = try(local.hw.detectors.ovs.attributes.dpdk, "false") != "true" ? null : (
    can(regex("MT27710", local.cards)) ? (length(local.speeds) > 0 ? "mlnx-${local.speeds[0]}G" : null) :
    can(regex("XXV710", local.cards)) ? "intel-25G" :
    can(regex("X710|82599", local.cards)) ? "intel-10G" : null
  )
`)
	}
	add(`}
`)
}

func (p page) blocks(add add) {
	if p.Interface != "" {
		add(`
node {
  name = local.address
  ip   = local.address
}
`)
	}
	if p.SRIOVLabel || p.SRIOVTaint {
		add(`
# Says whether Open vSwitch runs with dpdk. Without Open vSwitch, remove this block and what is called sriov.
detector "ovs" {
  allow {
    sockets = ["/run/openvswitch/db.sock"]
    groups  = ["prelet-ovs"] # whom the drop-in of the detector's package lets connect
  }
}
`)
	}
	if p.CPUs == "" && p.Memory == "" {
		return
	}
	add(`
stage "reserve" "node" {
  policy = "remainder"
  remainder {
`)
	if p.CPUs != "" {
		add(`    cpus   = %s # these remain for pods; half of the others is kubeReserved, half systemReserved
`, p.CPUs)
	}
	if p.Memory != "" {
		add(`    memory = %s # of whole GiB, half kubeReserved, half systemReserved
`, site.Quote(p.Memory))
	}
	add(`  }
}
`)
}

func (p page) labels(add add) {
	if len(p.Labels) > 0 || p.Proxy || p.Port || p.Subnet {
		add(`
stage "label" "site" {
  labels = {
`)
		for _, l := range p.Labels {
			add(`    %s = %s
`, site.Quote(l.Key), site.Quote(l.Value))
		}
		if p.Proxy {
			add(`    "network.netease.com/kube-proxy" = "lb-masquerade"
`)
		}
		if p.Port {
			add(`    "node.netease.com/port_id" = try(local.port.id, null) # null is no label
`)
		}
		if p.Subnet {
			add(`    "network.netease.com/single-subnet-id" = try(local.port.fixed_ips[0].subnet_id, null)
`)
		}
		add(`  }
}
`)
	}
	if p.GPULabel {
		add(`
stage "label" "gpu" {
  when   = length(local.nvidia) > 0
  labels = { accelerator = local.nvidia[0].model == null ? null : "nvidia-${slug(local.nvidia[0].model)}" }
}
`)
	}
	if p.SRIOVLabel {
		add(`
stage "label" "sriov" {
  when   = local.sriov != null
  labels = { "network.netease.com/sriov-type" = local.sriov }
}
`)
	}
}

func (p page) taints(add add) {
	if len(p.Taints) == 1 {
		add(`
stage "taint" "site" {
  taints = [%s]
}
`, site.Quote(p.Taints[0].String()))
	}
	if len(p.Taints) > 1 {
		add(`
stage "taint" "site" {
  taints = [
`)
		for _, t := range p.Taints {
			add(`    %s,
`, site.Quote(t.String()))
		}
		add(`  ]
}
`)
	}
	if p.GPUTaint {
		add(`
stage "taint" "gpu" {
  when   = length(local.nvidia) > 0
  taints = ["nvidia.com/gpu=true:NoSchedule"]
}
`)
	}
	if p.SRIOVTaint {
		add(`
stage "taint" "sriov" {
  when   = local.sriov != null
  taints = ["network.netease.com/sriov-type=${local.sriov}:NoSchedule"]
}
`)
	}
}

func (p page) kubelet(add add) {
	add(`
stage "write" "kubelet" {
  kubelet_config {
    base = local.base["vm-kubelet-config"]
`)
	if p.Interface != "" {
		add(`    patch = try(node.kubelet_config.address, "") == "0.0.0.0" ? { address = local.address } : {}
`)
	}
	add(`  }
  kubelet_flags {
    base = local.base["default-kubelet"]
    path = "/etc/default/kubelet"
`)
	if p.TaintsInFlag {
		add(`    taints = "flag" # registerWithTaints came with 1.23
`)
	}
	add(`  }
  file "resolv-conf" {
    when        = try(node.kubelet_config.resolvConf, null) != null
    path        = try(node.kubelet_config.resolvConf, null)
    content     = ""
    create_only = true
  }
  directory "kubelet-log" {
    when = try(node.flags["log-dir"], null) != null
    path = try(node.flags["log-dir"], null)
  }
}

stage "restart" "kubelet" {
`)
	if p.Interface != "" {
		add(`  precondition {
    condition     = local.address != null
    error_message = "Interface ${var.interface} has no IPv4 address. Name another one: prelet.var.interface= on the kernel command line."
  }
`)
	}
	add(`  precondition {
    condition     = trimspace(local.base["default-kubelet"]) != ""
    error_message = "The ConfigMap's default-kubelet is empty: the kubelet would start without its flags."
  }
}
`)
}
