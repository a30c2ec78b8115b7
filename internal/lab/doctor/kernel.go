package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/check"
)

// checkKernels reports options that kubeadm requires of a kernel. Alternatives are separated by |.
// Source: k8s.io/system-validators, validators/types_unix.go; of its optional ones, those that pods notice.
func (in *Observations) checkKernels(r *check.Recorder) {
	required := "NAMESPACES NET_NS PID_NS IPC_NS UTS_NS CPUSETS MEMCG INET EXT4_FS PROC_FS FAIR_GROUP_SCHED " +
		"NETFILTER_XT_TARGET_REDIRECT|IP_NF_TARGET_REDIRECT NETFILTER_XT_MATCH_COMMENT " +
		"CGROUPS CGROUP_PIDS CGROUP_SCHED"
	cgroup := 0 // of an image it is not known
	if in.Plan != nil {
		cgroup = in.Plan.Kubelet.Cgroup
	}
	switch cgroup {
	case 1:
		required += " CGROUP_CPUACCT CGROUP_DEVICE CGROUP_FREEZER"
	case 2:
		required += " CGROUP_BPF"
	}

	for _, release := range slices.Sorted(maps.Keys(in.Kernels)) {
		options := in.Kernels[release]
		if missing := listMissing(options, required); missing != "" {
			r.Warn(
				"kernel "+release+" lacks what kubeadm requires: "+missing,
				"the kubelet, kube-proxy or pods may not work",
				"use a kernel with these options",
			)
		}
		const common = "OVERLAY_FS|OVERLAYFS_FS CFS_BANDWIDTH SECCOMP SECCOMP_FILTER"
		if missing := listMissing(options, common); missing != "" {
			r.Warn(
				"kernel "+release+" lacks what pods commonly need: "+missing,
				"pods with overlayfs, limits of CPU, or seccomp need them",
				"use a kernel with these options",
			)
		}
	}
	if len(in.Kernels) > 0 {
		r.Fine("the kernel has the options that kubeadm requires")
	}
}

// listMissing returns the options of a text that a kernel was built without.
func listMissing(options map[string]bool, text string) string {
	var missing []string
	for option := range strings.FieldsSeq(text) {
		isSet := false
		for name := range strings.SplitSeq(option, "|") {
			isSet = isSet || options["CONFIG_"+name]
		}
		if !isSet {
			missing = append(missing, "CONFIG_"+strings.ReplaceAll(option, "|", " or CONFIG_"))
		}
	}

	return strings.Join(missing, ", ")
}
