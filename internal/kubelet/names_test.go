package kubelet

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// FuzzNames: what a look at the letters finds right is right by Kubernetes' own rules.
func FuzzNames(f *testing.F) {
	long := strings.Repeat("a", 63)
	for _, s := range []string{"", "a", "A", "-a", "a-", "a.b", "a..b", ".a", "example.com/x", "example.com/", "/x", "Example.com/x", "a/b/c", "a_b", "a_", long, long + "a", long + "/" + long,
		strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a", "a\n", "é", "a@b", "a[b", "a`b", "a{b", "node-role.kubernetes.io/worker", "NVIDIA-H100-80GB-HBM3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, c := range map[string]struct{ ours, theirs func(string) []string }{
			"subdomain": {SubdomainFaults, content.IsDNS1123Subdomain}, "label": {DNSLabelFaults, content.IsDNS1123Label},
			"key": {labelKeyFaults, content.IsLabelKey}, "value": {labelValueFaults, content.IsLabelValue},
		} {
			if got, want := c.ours(s), c.theirs(s); !slices.Equal(got, want) {
				t.Errorf("%s %q: %q, and Kubernetes says %q", name, s, got, want)
			}
		}
	})
}

// What is common is judged without a regular expression.
func TestPlainNames(t *testing.T) {
	for _, s := range []string{"node-role.kubernetes.io/worker", "topology.kubernetes.io/zone", "accelerator"} {
		if n := testing.AllocsPerRun(10, func() { labelKeyFaults(s) }); n > 0 {
			t.Errorf("%s took %v allocations", s, n)
		}
	}
	for _, s := range []string{"", "true", "NVIDIA-H100-80GB-HBM3", "v1.36.3"} {
		if n := testing.AllocsPerRun(10, func() { labelValueFaults(s) }); n > 0 {
			t.Errorf("%s took %v allocations", s, n)
		}
	}
}
