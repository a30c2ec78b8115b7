package kubelet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// parseNode returns a Node with taints and the annotation of prelet.
func parseNode(t *testing.T, taints, owned string) NodeObject {
	t.Helper()
	text := `{"kind": "Node", "metadata": {"name": "n1", "resourceVersion": "7", "annotations": {
	  "other": "x", "prelet.github.io/taints": "` + owned + `"}}, "spec": {"taints": [` + taints + `]}}`
	n, err := ParseNode([]byte(text), "")
	must(t, err)
	return n
}

func TestChangeTaints(t *testing.T) {
	t.Parallel()
	const foreign = `{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}`
	const ours = `{"key": "a", "value": "1", "effect": "NoSchedule"}`
	for _, c := range []struct {
		name, have, owned string
		want, planned     string // in the form of the annotation; planned besides want
		change            string
		patch             string // a part of it; "" if nothing is sent
	}{
		{"as planned", foreign + "," + ours, "a=1:NoSchedule", "a=1:NoSchedule", "", "", ""},
		{"only the owner is noted", ours, "", "a=1:NoSchedule", "", "", `"prelet.github.io/taints":"a=1:NoSchedule"`},
		{"missing", foreign, "", "a=1:NoSchedule", "", "a=1:NoSchedule",
			`"taints":[{"key":"foreign","effect":"NoExecute","timeAdded":"2026-01-02T03:04:05Z"},` +
				`{"key":"a","value":"1","effect":"NoSchedule"}]`},
		{"another value", ours, "a=1:NoSchedule", "a=2:NoSchedule", "", "a=2:NoSchedule",
			`"taints":[{"key":"a","value":"2","effect":"NoSchedule"}]`},
		{"another value of another party", ours, "", "a=2:NoSchedule", "", "", ""},
		{"another party's value and a missing taint", ours, "", "a=2:NoSchedule b:NoSchedule", "", "b:NoSchedule",
			`"prelet.github.io/taints":"b:NoSchedule"`},
		{"no longer planned", foreign + "," + ours, "a=1:NoSchedule", "", "", "a=1:NoSchedule-",
			`"prelet.github.io/taints":null`},
		{"no longer planned, and not owned", ours, "", "", "", "", ""},
		{"moved to the base", ours, "a=1:NoSchedule", "", "a=1:NoSchedule", "",
			`"taints":[{"key":"a","value":"1","effect":"NoSchedule"}]`},
		{"moved to the base with another value", ours, "a=1:NoSchedule", "", "a=2:NoSchedule", "",
			`"prelet.github.io/taints":null`},
		{"missing, and of the base", foreign, "", "", "a=1:NoSchedule", "", ""},
		{"changed by somebody", `{"key": "a", "value": "9", "effect": "NoSchedule"}`, "a=1:NoSchedule", "", "", "",
			`"taints":[{"key":"a","value":"9","effect":"NoSchedule"}]`},
		{"changed by somebody, and planned", `{"key": "a", "value": "9", "effect": "NoSchedule"}`, "a=1:NoSchedule",
			"a=1:NoSchedule", "", "a=1:NoSchedule", `"taints":[{"key":"a","value":"1","effect":"NoSchedule"}]`},
		{"of others", foreign, "", "", "", "", ""},
		{"a damaged annotation", foreign, "foreign:Never nonsense", "", "", "", `"prelet.github.io/taints":null`},
	} {
		n := parseNode(t, c.have, c.owned)
		parse := func(text string) (out []Taint) {
			for _, word := range strings.Fields(text) {
				taint, err := ParseTaint(word)
				must(t, err)
				out = append(out, taint)
			}
			return out
		}
		change, ok := n.ChangeTaints(parse(c.want), parse(c.want+" "+c.planned))
		if got := change.String(); got != c.change || ok != (c.patch != "") {
			t.Errorf("%s: got %q, %t; want %q, %t", c.name, got, ok, c.change, c.patch != "")
		}
		var left []string
		for _, taint := range change.After().Taints {
			left = append(left, taint.String())
		}
		var plain struct {
			Spec struct{ Taints []Taint }
		}
		_, _, document := change.Patch(time.Time{})
		patch, _ := json.Marshal(document)
		if err := json.Unmarshal(patch, &plain); err != nil {
			t.Fatalf("%s: got the patch %s, %v; want JSON", c.name, patch, err)
		}
		var sent []string
		for _, taint := range plain.Spec.Taints {
			sent = append(sent, taint.String())
		}
		if !slices.Equal(left, sent) {
			t.Errorf("%s: got the taints %q after the change, want those of the patch %q", c.name, left, sent)
		}
		if !strings.Contains(string(patch), `"resourceVersion":"7"`) || !strings.Contains(string(patch), c.patch) {
			t.Errorf("%s: got the patch %s, want the version 7 and %s in it", c.name, patch, c.patch)
		}
	}
}

func TestStartupTaints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"karpenter.sh/unregistered:NoExecute":                               true,
		"karpenter.sh/disrupted:NoSchedule":                                 false,
		"node.cilium.io/agent-not-ready=true:NoExecute":                     true,
		"readiness.k8s.io/gpu=pending:NoSchedule":                           true,
		"startup-taint.cluster-autoscaler.kubernetes.io/gpu=1:NoSchedule":   true,
		"ignore-taint.cluster-autoscaler.kubernetes.io/cilium:NoExecute":    true,
		"node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule":    true,
		"nvidia.com/gpu=true:NoSchedule":                                    false,
		"example.com/readiness.k8s.io:NoSchedule":                           false,
		"node-role.kubernetes.io/control-plane:NoSchedule":                  false,
		"other.startup-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule": false,
	} {
		taint, err := ParseTaint(text)
		if got := taint.IsStartup(); err != nil || got != want {
			t.Errorf("IsStartup of %q: got %t and %v, want %t", text, got, err, want)
		}
	}
}

// TestTaintsOfNodeController compares the taints that the node lifecycle controller removes with the table, by effect.
// Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go of Kubernetes 1.37: doNoScheduleTaintingPass removes
// taints with NoSchedule by the conditions and the cordon, markNodeAsReachable those of a node that is ready, with
// NoExecute. It knows no other key or effect.
func TestTaintsOfNodeController(t *testing.T) {
	t.Parallel()
	for key, removed := range map[string][]string{
		"not-ready":           {"NoSchedule", "NoExecute"},
		"unreachable":         {"NoSchedule", "NoExecute"},
		"unschedulable":       {"NoSchedule"},
		"memory-pressure":     {"NoSchedule"},
		"disk-pressure":       {"NoSchedule"},
		"pid-pressure":        {"NoSchedule"},
		"network-unavailable": {"NoSchedule"},
		"out-of-service":      nil, // a person sets and removes it
	} {
		for _, effect := range []string{"NoSchedule", "NoExecute"} {
			known, ok := FindStartupTaint("node.kubernetes.io/" + key)
			got := ok && (known.Effect == "" || known.Effect == effect)
			if want := slices.Contains(removed, effect); got != want {
				t.Errorf("the table has %s:%s as removed by its owner: got %t, want %t", key, effect, got, want)
			}
		}
	}
}
