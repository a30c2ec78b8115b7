package kubelet

import (
	"slices"
	"strings"
)

// Layout is where a distribution's kubelet keeps its files.
type Layout struct {
	Name string // kubeadm-deb, kubeadm-rpm, ack

	FlagsFile     string // environment file for flags of the site
	FlagsVariable string // the variable in it

	ConfigFile          string // KubeletConfiguration
	ConfigDropIns       string // folder for --config-dir
	CAFile              string // the cluster's CA certificates
	BootstrapKubeconfig string
	Kubeconfig          string // written by the kubelet when it joined
	UnitDropIns         string // folder of kubelet.service.d

	KubeadmFlagsFile     string // written by kubeadm, read before FlagsFile, whose flags come later and win
	KubeadmFlagsVariable string

	CPUManagerState    string // state that a kubelet compares with its policy at start, and refuses
	MemoryManagerState string
}

// StateFiles returns the files that must be gone when CPU or memory policy or reservation change.
func (l Layout) StateFiles() []string { return []string{l.CPUManagerState, l.MemoryManagerState} }

func kubeadm(name, flagsFile string) Layout {
	return Layout{
		Name:                 name,
		FlagsFile:            flagsFile,
		FlagsVariable:        "KUBELET_EXTRA_ARGS",
		ConfigFile:           "/var/lib/kubelet/config.yaml",
		ConfigDropIns:        "/etc/kubernetes/kubelet.conf.d",
		CAFile:               "/etc/kubernetes/pki/ca.crt",
		BootstrapKubeconfig:  "/etc/kubernetes/bootstrap-kubelet.conf",
		Kubeconfig:           "/etc/kubernetes/kubelet.conf",
		UnitDropIns:          "/etc/systemd/system/kubelet.service.d",
		KubeadmFlagsFile:     "/var/lib/kubelet/kubeadm-flags.env",
		KubeadmFlagsVariable: "KUBELET_KUBEADM_ARGS",
		CPUManagerState:      "/var/lib/kubelet/cpu_manager_state",
		MemoryManagerState:   "/var/lib/kubelet/memory_manager_state",
	}
}

// KubeadmDeb is the layout of kubeadm's packages for Debian and Ubuntu.
func KubeadmDeb() Layout { return kubeadm("kubeadm-deb", "/etc/default/kubelet") }

// KubeadmRPM is the layout of kubeadm's packages for Red Hat, SUSE and what follows them.
func KubeadmRPM() Layout { return kubeadm("kubeadm-rpm", "/etc/sysconfig/kubelet") }

// ACK is the layout of Alibaba's nodes, whose unit reads its own variable from a file of its own.
func ACK() Layout {
	l := kubeadm("ack", "/etc/kubernetes/kubelet-customized-args.conf")
	l.FlagsVariable = "KUBELET_CUSTOMIZED_ARGS"
	return l
}

// LayoutFor chooses between KubeadmDeb and KubeadmRPM by ID and ID_LIKE of os-release(5). known is false for a
// distribution that is neither, which gets Debian's.
func LayoutFor(id, idLike string) (layout Layout, known bool) {
	for _, name := range append([]string{id}, strings.Fields(idLike)...) {
		switch name = strings.ToLower(name); {
		case slices.Contains([]string{"debian", "ubuntu"}, name):
			return KubeadmDeb(), true
		case slices.Contains([]string{"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn", "sles", "suse", "opensuse",
			"opensuse-leap", "alinux", "anolis", "openeuler", "kylin"}, name):
			return KubeadmRPM(), true
		}
	}
	return KubeadmDeb(), false
}
