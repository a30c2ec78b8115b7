package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/check"
)

// wellKernel has every option that is looked for, with cgroup v2.
const wellKernel = "NAMESPACES NET_NS PID_NS IPC_NS UTS_NS CPUSETS MEMCG INET EXT4_FS PROC_FS FAIR_GROUP_SCHED " +
	"IP_NF_TARGET_REDIRECT NETFILTER_XT_MATCH_COMMENT CGROUPS CGROUP_PIDS CGROUP_SCHED CGROUP_BPF " +
	"OVERLAY_FS CFS_BANDWIDTH SECCOMP SECCOMP_FILTER"

// kernelWith returns the configuration of a kernel with some options.
func kernelWith(text string) map[string]bool {
	options := map[string]bool{}
	for option := range strings.FieldsSeq(text) {
		options["CONFIG_"+option] = true
	}

	return options
}

// TestKernel checks which options of a kernel doctor misses, of a node and of an image, whose cgroups are not known.
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
		{"an option that is required", wellKernel, "MEMCG", 2, []string{"kernel 6.12 lacks what kubeadm requires: CONFIG_MEMCG"}},
		{"both names of an option", wellKernel, "IP_NF_TARGET_REDIRECT", 2, []string{
			"kernel 6.12 lacks what kubeadm requires: CONFIG_NETFILTER_XT_TARGET_REDIRECT or CONFIG_IP_NF_TARGET_REDIRECT",
		}},
		{"its other name", wellKernel + " NETFILTER_XT_TARGET_REDIRECT", "IP_NF_TARGET_REDIRECT", 2, nil},
		{"an option that pods need", wellKernel, "SECCOMP", 2, []string{"kernel 6.12 lacks what pods commonly need: CONFIG_SECCOMP"}},
		{"of cgroup v2", wellKernel, "CGROUP_BPF", 2, []string{"kernel 6.12 lacks what kubeadm requires: CONFIG_CGROUP_BPF"}},
		{"of cgroup v1", wellKernel, "", 1, []string{
			"kernel 6.12 lacks what kubeadm requires: CONFIG_CGROUP_CPUACCT, CONFIG_CGROUP_DEVICE, CONFIG_CGROUP_FREEZER",
		}},
		{"an unknown version of cgroups", wellKernel, "CGROUP_BPF", 0, nil},
	} {
		in := well()
		in.Plan.Kubelet.Cgroup = c.cgroup
		in.Kernels = map[string]map[string]bool{"6.12": kernelWith(c.kernel)}
		delete(in.Kernels["6.12"], "CONFIG_"+c.without)
		if c.kernel == "" {
			in.Kernels = nil
		}
		image := Observations{Image: &ImageInput{Root: newImage(t, nil), Kernels: in.Kernels}}
		for subject, in := range map[string]Observations{"a node": in, "an image": image} {
			want := c.want
			if in.Image != nil && strings.HasPrefix(c.name, "of cgroup") {
				want = nil
			}
			var got []string
			found := Examine(in)
			for _, f := range found {
				if f.Check == "kernel" && f.State == check.Warning {
					got = append(got, f.Summary)
				}
			}
			if !slices.Equal(got, want) || in.Image == nil && !check.Fit(found) {
				t.Errorf("%s of %s: got %q, want %q", c.name, subject, got, want)
			}
		}
	}
}
