package kubelet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"
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
	for _, c := range table.YAML[[]struct {
		Name, Have, Owned string
		Want, Planned     string // in the form of the annotation; planned besides want
		Change            string
		Patch             string // a part of it; "" if nothing is sent
	}](t, `
- name: as planned
  have: '{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"},{"key": "a", "value": "1", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  want: a=1:NoSchedule
- name: only the owner is noted
  have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'
  want: a=1:NoSchedule
  patch: '"prelet.github.io/taints":"a=1:NoSchedule"'
- name: missing
  have: '{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}'
  want: a=1:NoSchedule
  change: a=1:NoSchedule
  patch: '"taints":[{"key":"foreign","effect":"NoExecute","timeAdded":"2026-01-02T03:04:05Z"},{"key":"a","value":"1","effect":"NoSchedule"}]'
- name: another value
  have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  want: a=2:NoSchedule
  change: a=2:NoSchedule
  patch: '"taints":[{"key":"a","value":"2","effect":"NoSchedule"}]'
- name: another value of another party
  have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'
  want: a=2:NoSchedule
- name: another party's value and a missing taint
  have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'
  want: a=2:NoSchedule b:NoSchedule
  change: b:NoSchedule
  patch: '"prelet.github.io/taints":"b:NoSchedule"'
- name: no longer planned
  have: '{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"},{"key": "a", "value": "1", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  change: a=1:NoSchedule-
  patch: '"prelet.github.io/taints":null'
- {name: 'no longer planned, and not owned', have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'}
- name: moved to the base
  have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  planned: a=1:NoSchedule
  patch: '"taints":[{"key":"a","value":"1","effect":"NoSchedule"}]'
- name: moved to the base with another value
  have: '{"key": "a", "value": "1", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  planned: a=2:NoSchedule
  patch: '"prelet.github.io/taints":null'
- name: missing, and of the base
  have: '{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}'
  planned: a=1:NoSchedule
- name: changed by somebody
  have: '{"key": "a", "value": "9", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  patch: '"taints":[{"key":"a","value":"9","effect":"NoSchedule"}]'
- name: changed by somebody, and planned
  have: '{"key": "a", "value": "9", "effect": "NoSchedule"}'
  owned: a=1:NoSchedule
  want: a=1:NoSchedule
  change: a=1:NoSchedule
  patch: '"taints":[{"key":"a","value":"1","effect":"NoSchedule"}]'
- {name: of others, have: '{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}'}
- name: a damaged annotation
  have: '{"key": "foreign", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}'
  owned: foreign:Never nonsense
  patch: '"prelet.github.io/taints":null'
`) {
		n := parseNode(t, c.Have, c.Owned)
		parse := func(text string) (out []Taint) {
			for _, word := range strings.Fields(text) {
				taint, err := ParseTaint(word)
				must(t, err)
				out = append(out, taint)
			}
			return out
		}
		change, ok := n.ChangeTaints(parse(c.Want), parse(c.Want+" "+c.Planned))
		if got := change.String(); got != c.Change || ok != (c.Patch != "") {
			t.Errorf("%s: got %q, %t; want %q, %t", c.Name, got, ok, c.Change, c.Patch != "")
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
			t.Fatalf("%s: got the patch %s, %v; want JSON", c.Name, patch, err)
		}
		var sent []string
		for _, taint := range plain.Spec.Taints {
			sent = append(sent, taint.String())
		}
		if !slices.Equal(left, sent) {
			t.Errorf("%s: got the taints %q after the change, want those of the patch %q", c.Name, left, sent)
		}
		if !strings.Contains(string(patch), `"resourceVersion":"7"`) || !strings.Contains(string(patch), c.Patch) {
			t.Errorf("%s: got the patch %s, want the version 7 and %s in it", c.Name, patch, c.Patch)
		}
	}
}

func TestStartupTaints(t *testing.T) {
	t.Parallel()
	for text, want := range table.YAML[map[string]bool](t, `
karpenter.sh/unregistered:NoExecute: true
karpenter.sh/disrupted:NoSchedule: false
node.cilium.io/agent-not-ready=true:NoExecute: true
readiness.k8s.io/gpu=pending:NoSchedule: true
startup-taint.cluster-autoscaler.kubernetes.io/gpu=1:NoSchedule: true
ignore-taint.cluster-autoscaler.kubernetes.io/cilium:NoExecute: true
node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule: true
nvidia.com/gpu=true:NoSchedule: false
example.com/readiness.k8s.io:NoSchedule: false
node-role.kubernetes.io/control-plane:NoSchedule: false
other.startup-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule: false
`) {
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
	for key, removed := range table.YAML[map[string][]string](t, `
not-ready: [NoSchedule, NoExecute]
unreachable: [NoSchedule, NoExecute]
unschedulable: [NoSchedule]
memory-pressure: [NoSchedule]
disk-pressure: [NoSchedule]
pid-pressure: [NoSchedule]
network-unavailable: [NoSchedule]
# a person sets and removes it
out-of-service: null
`) {
		for _, effect := range []string{"NoSchedule", "NoExecute"} {
			known, ok := FindStartupTaint("node.kubernetes.io/" + key)
			got := ok && (known.Effect == "" || known.Effect == effect)
			if want := slices.Contains(removed, effect); got != want {
				t.Errorf("the table has %s:%s as removed by its owner: got %t, want %t", key, effect, got, want)
			}
		}
	}
}
