package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/check"
)

// TestSkew checks that versions within Kubernetes' skew policy, and those that are not versions, have no finding.
func TestSkew(t *testing.T) {
	for _, server := range []string{
		"", "v1.36.0", "v1.36.3-gke.1", "v1.39.9", "garbage", "v2.0.0", "v1.", "v1.-1", "v1.35\x1b[2J", "v1.99999999999999999999",
		strings.Repeat("9", 1<<16),
	} {
		in := well()
		in.Server = server
		for _, f := range Examine(in) {
			if f.Check == "kubelet" && f.State != check.OK {
				t.Errorf("API server %.40q: got %+v, want no such finding", server, f)
			}
		}
	}
}

// wellKernel has every option that is looked for, with cgroup v2.
const wellKernel = "NAMESPACES NET_NS PID_NS IPC_NS UTS_NS CPUSETS MEMCG INET EXT4_FS PROC_FS FAIR_GROUP_SCHED " +
	"IP_NF_TARGET_REDIRECT NETFILTER_XT_MATCH_COMMENT CGROUPS CGROUP_PIDS CGROUP_SCHED CGROUP_BPF " +
	"OVERLAY_FS CFS_BANDWIDTH SECCOMP SECCOMP_FILTER"

// TestKernel checks which options of a kernel doctor misses.
func TestKernel(t *testing.T) {
	for _, c := range []struct {
		name    string
		kernel  string // options
		without string
		cgroup  int
		want    []string // the summaries
	}{
		{"not known", "", "", 2, nil},
		{"complete", wellKernel, "", 2, nil},
		{"an option that is required", wellKernel, "MEMCG", 2, []string{"the kernel lacks what kubeadm requires: CONFIG_MEMCG"}},
		{"both names of an option", wellKernel, "IP_NF_TARGET_REDIRECT", 2, []string{
			"the kernel lacks what kubeadm requires: CONFIG_NETFILTER_XT_TARGET_REDIRECT or CONFIG_IP_NF_TARGET_REDIRECT",
		}},
		{"its other name", wellKernel + " NETFILTER_XT_TARGET_REDIRECT", "IP_NF_TARGET_REDIRECT", 2, nil},
		{"an option that pods need", wellKernel, "SECCOMP", 2, []string{"the kernel lacks what pods commonly need: CONFIG_SECCOMP"}},
		{"of cgroup v2", wellKernel, "CGROUP_BPF", 2, []string{"the kernel lacks what kubeadm requires: CONFIG_CGROUP_BPF"}},
		{"of cgroup v1", wellKernel, "", 1, []string{
			"the kernel lacks what kubeadm requires: CONFIG_CGROUP_CPUACCT, CONFIG_CGROUP_DEVICE, CONFIG_CGROUP_FREEZER",
		}},
		{"an unknown version of cgroups", wellKernel, "CGROUP_BPF", 0, nil},
	} {
		in := well()
		in.Plan.Kubelet.Cgroup = c.cgroup
		in.Kernel = map[string]bool{}
		for option := range strings.FieldsSeq(c.kernel) {
			if option != c.without {
				in.Kernel["CONFIG_"+option] = true
			}
		}

		var got []string
		found := Examine(in)
		for _, f := range found {
			if f.State == check.Warning {
				got = append(got, f.Summary)
			}
		}
		if !slices.Equal(got, c.want) || !check.Fit(found) {
			t.Errorf("%s: got %q, fit %t; want %q of a fit node", c.name, got, check.Fit(found), c.want)
		}
	}
}
