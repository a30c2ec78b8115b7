package doctor

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/check"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// maxSkew is the highest number of minor versions by which a kubelet may be older than the API server.
// Source: kubernetes.io/releases/version-skew-policy.
const maxSkew = 3

// checkSkew compares the kubelet with the API server.
func (in *Input) checkSkew(r *check.Recorder) {
	kubelet, isKubelet := known.Minor(in.Kubelet.Version)
	server, isServer := known.Minor(in.Server)
	versions := fmt.Sprintf("the kubelet is 1.%d, the API server 1.%d", kubelet, server)
	switch {
	case !isKubelet || !isServer:
	case kubelet > server:
		r.Warn(
			"the kubelet is newer than the API server",
			versions+", which Kubernetes does not support",
			"upgrade the control plane first, or use an older image",
		)
	case server > kubelet+maxSkew:
		r.Warn(
			fmt.Sprintf("the kubelet is more than %d minor versions older than the API server", maxSkew),
			versions+", which Kubernetes does not support",
			"use an image with a newer kubelet",
		)
	}
}

// checkName reports a name of the node that does not resolve.
func (in *Input) checkName(r *check.Recorder) {
	if err := in.Name; err != nil {
		r.Warn(
			"the name of the node does not resolve",
			err.Error()+"; without --node-ip, the kubelet then uses the address of the default route",
			"add it to /etc/hosts or to the DNS, or install nss-myhostname",
		)
	}
}

// checkKernel reports options that kubeadm requires of a kernel. Alternatives are separated by |.
// Source: k8s.io/system-validators, validators/types_unix.go; of its optional ones, those that pods notice.
func (in *Input) checkKernel(r *check.Recorder) {
	p := in.Plan
	if p == nil || len(in.Kernel) == 0 {
		return
	}

	required := "NAMESPACES NET_NS PID_NS IPC_NS UTS_NS CPUSETS MEMCG INET EXT4_FS PROC_FS FAIR_GROUP_SCHED " +
		"NETFILTER_XT_TARGET_REDIRECT|IP_NF_TARGET_REDIRECT NETFILTER_XT_MATCH_COMMENT " +
		"CGROUPS CGROUP_PIDS CGROUP_SCHED"
	switch p.Kubelet.Cgroup {
	case 1:
		required += " CGROUP_CPUACCT CGROUP_DEVICE CGROUP_FREEZER"
	case 2:
		required += " CGROUP_BPF"
	}
	if missing := in.listMissing(required); missing != "" {
		r.Warn(
			"the kernel lacks what kubeadm requires: "+missing,
			"the kubelet, kube-proxy or pods may not work",
			"use a kernel with these options",
		)
	}
	if missing := in.listMissing("OVERLAY_FS|OVERLAYFS_FS CFS_BANDWIDTH SECCOMP SECCOMP_FILTER"); missing != "" {
		r.Warn(
			"the kernel lacks what pods commonly need: "+missing,
			"pods with overlayfs, limits of CPU, or seccomp need them",
			"use a kernel with these options",
		)
	}
}

// listMissing returns the options that the kernel was built without.
func (in *Input) listMissing(options string) string {
	var missing []string
	for option := range strings.FieldsSeq(options) {
		isSet := false
		for name := range strings.SplitSeq(option, "|") {
			isSet = isSet || in.Kernel["CONFIG_"+name]
		}
		if !isSet {
			missing = append(missing, "CONFIG_"+strings.ReplaceAll(option, "|", " or CONFIG_"))
		}
	}

	return strings.Join(missing, ", ")
}
