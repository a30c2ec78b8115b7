package kubelet

import "strings"

// Layout has the paths of a distribution's kubelet.
type Layout struct {
	FlagsFile     string // environment file for the site's flags
	FlagsVariable string // the variable in it

	ConfigFile    string // KubeletConfiguration
	ConfigDropIns string // folder for --config-dir
	CAFile        string // the cluster's CA certificates
	Kubeconfig    string // written by the kubelet when it joined

	KubeadmFlagsFile     string // written by kubeadm; FlagsFile overrides its flags
	KubeadmFlagsVariable string

	// InstanceConfig has the fields of this node, which kubeadm merges over the cluster's KubeletConfiguration each
	// time that it writes ConfigFile. `kubeadm join` replaces it, `kubeadm upgrade node` keeps it.
	InstanceConfig string
}

func kubeadm(flagsFile string) Layout {
	return Layout{
		FlagsFile:            flagsFile,
		FlagsVariable:        "KUBELET_EXTRA_ARGS",
		ConfigFile:           "/var/lib/kubelet/config.yaml",
		ConfigDropIns:        "/etc/kubernetes/kubelet.conf.d",
		CAFile:               "/etc/kubernetes/pki/ca.crt",
		Kubeconfig:           "/etc/kubernetes/kubelet.conf",
		KubeadmFlagsFile:     "/var/lib/kubelet/kubeadm-flags.env",
		KubeadmFlagsVariable: "KUBELET_KUBEADM_ARGS",
		InstanceConfig:       "/var/lib/kubelet/instance-config.yaml",
	}
}

// KubeadmDeb is the layout of kubeadm's packages for Debian and Ubuntu.
func KubeadmDeb() Layout { return kubeadm("/etc/default/kubelet") }

// LayoutFor returns the layout for ID and ID_LIKE of os-release(5). An unknown distribution gets Debian's.
func LayoutFor(id, idLike string) Layout {
	for _, name := range append([]string{id}, strings.Fields(idLike)...) {
		switch strings.ToLower(name) {
		case "debian", "ubuntu":
			return KubeadmDeb()
		case "rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn",
			"sles", "suse", "opensuse", "opensuse-leap",
			"alinux", "anolis", "openeuler", "kylin":
			return kubeadm("/etc/sysconfig/kubelet") // Red Hat, SUSE and distributions based on them
		}
	}

	return KubeadmDeb()
}
