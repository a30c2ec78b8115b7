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
}

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
	}
}

// KubeadmDeb is the layout of kubeadm's packages for Debian and Ubuntu.
func KubeadmDeb() Layout { return kubeadm("kubeadm-deb", "/etc/default/kubelet") }

// KubeadmRPM is the layout of kubeadm's packages for Red Hat, SUSE and what follows them.
func KubeadmRPM() Layout { return kubeadm("kubeadm-rpm", "/etc/sysconfig/kubelet") }

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
