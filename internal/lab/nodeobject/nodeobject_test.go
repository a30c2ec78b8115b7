package nodeobject

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages/builtin"
)

// planRecordings returns the plans of the recordings of a version, by file.
func planRecordings(t *testing.T) map[string]*evaluate.Plan {
	t.Helper()
	files, err := filepath.Glob("../../../testdata/stability/0.1.0/*.prelet*")
	if err != nil || len(files) < 10 {
		t.Fatalf("recordings: got %q, %v; want at least 10", files, err)
	}

	plans := map[string]*evaluate.Plan{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := tape.Decode(f)
		_ = f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		site, diags := lang.Parse(r.Header.Site, lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"})
		if diags.HasErrors() {
			t.Fatalf("%s: %v", file, diags)
		}
		plans[file] = evaluate.Run(t.Context(), site, evaluate.RunInput{Source: r.Source()})
	}

	return plans
}

// decode decodes a Node as the API server does with fieldValidation=Strict.
func decode(t *testing.T, object map[string]any) (n corev1.Node) {
	t.Helper()
	text, err := json.Marshal(object)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &n)
	}
	if err != nil {
		t.Fatalf("%s: got %v; want a Node of v1", text, err)
	}

	return n
}

// TestNodes compares the Node of each recording with the plan. What is computed without a stage reserve must be what
// that stage computes.
func TestNodes(t *testing.T) {
	reserved := 0
	for file, p := range planRecordings(t) {
		var set Set
		n, err := set.Add(p, file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		got := decode(t, n)
		isStartup := func(t desired.Taint) bool { return t.IsStartup() }
		taints := slices.DeleteFunc(slices.Clone(p.Node.Taints), isStartup)
		if len(got.Spec.Taints) != len(taints) || got.Name == "" || got.Labels["kubernetes.io/arch"] != "amd64" {
			t.Errorf("%s: got %+v; want the name, the architecture and the taints %v", file, got, taints)
		}
		for name, left := range got.Status.Allocatable {
			if has, ok := got.Status.Capacity[name]; !ok || has.Cmp(left) < 0 {
				t.Errorf("%s: got capacity %s of %s, want at least %s", file, &has, name, &left)
			}
		}

		if p.Node.Reserved == nil {
			continue
		}
		reserved++
		if pods := got.Status.Allocatable.Pods().Value(); int(pods) != p.Node.Reserved.MaxPods {
			t.Errorf("%s: got %d pods, want %d", file, pods, p.Node.Reserved.MaxPods)
		}
		without := *p
		without.Node.Reserved = nil
		m := maker{plan: &without}
		_, left := m.resources()
		for name, text := range p.Node.Reserved.Allocatable {
			want, got := resource.MustParse(text), resource.MustParse(left[name])
			if got.Cmp(want) != 0 {
				t.Errorf("%s: without a stage reserve %s of %s are left, want %s", file, left[name], name, text)
			}
		}
	}
	if reserved < 10 {
		t.Errorf("got %d recordings with a stage reserve, want at least 10", reserved)
	}
}

func pointTo[T any](v T) *T { return &v }

// newPlan returns a plan of a GPU node without a stage reserve.
func newPlan() *evaluate.Plan {
	return &evaluate.Plan{
		Complete: true,
		Trace: evaluate.Trace{Facts: &tape.Facts{
			CPU:    tape.CPU{Logical: pointTo(8), Arch: pointTo("arm64")},
			Memory: tape.Memory{TotalBytes: pointTo(int64(16 << 30)), HugePages: map[string]int{"2Mi": 512}},
			Accelerators: []tape.Accelerator{
				{Kind: "gpu", Vendor: pointTo("nvidia")},
				{Kind: "gpu", Vendor: pointTo("nvidia")},
				{Kind: "fpga", Vendor: pointTo("xilinx")},
			},
		}},
		Installed: evaluate.Installed{
			Kubelet: tape.KubeletAns{Version: pointTo("v1.37.1"), Disk: 100 << 30},
			Declares: &[]rules.Declaration{
				{Name: "A", Declared: true},
				{Name: "B"},
				{Name: "C", Declared: true, ByRuntime: true},
			},
		},
		Node: desired.Node{
			Labels: []desired.Label{{Key: "example.com/a", Value: "b"}},
			Taints: []desired.Taint{
				{Taint: kubelet.Taint{Key: "example.com/stays", Effect: "NoSchedule"}},
				{Taint: kubelet.Taint{Key: "example.com/leaves", Effect: "NoSchedule"}, Startup: true},
			},
			Effective: map[string]any{
				"kubeReserved":   map[string]any{"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "10Gi"},
				"systemReserved": map[string]any{"cpu": "500m"},
				"evictionHard":   map[string]any{"memory.available": "1Gi", "nodefs.available": "25%"},
			},
		},
	}
}

func TestNodeWithoutReserve(t *testing.T) {
	var set Set
	object, err := set.Add(newPlan(), "fleet/n1.prelet.gz")
	if err != nil {
		t.Fatal(err)
	}
	n := decode(t, object)
	left := map[string]string{}
	for name, q := range n.Status.Allocatable {
		left[string(name)] = q.String()
	}

	want := map[string]string{
		"cpu":               "7",
		"memory":            "13Gi", // less kubeReserved, evictionHard and the huge pages
		"ephemeral-storage": "65Gi",
		"hugepages-2Mi":     "1Gi",
		"nvidia.com/gpu":    "2",
		"pods":              "110",
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("allocatable, want - and got +:\n%s", diff)
	}
	labels := map[string]string{
		"example.com/a":           "b",
		"kubernetes.io/hostname":  "n1",
		"kubernetes.io/os":        "linux",
		"kubernetes.io/arch":      "arm64",
		"beta.kubernetes.io/os":   "linux",
		"beta.kubernetes.io/arch": "arm64",
	}
	if diff := cmp.Diff(labels, n.Labels); diff != "" || n.Name != "n1" {
		t.Errorf("%s: labels, want - and got +:\n%s", n.Name, diff)
	}
	if got := n.Spec.Taints; len(got) != 1 || got[0].Key != "example.com/stays" {
		t.Errorf("got taints %v, want only the one that stays", got)
	}
	if got := n.Status.DeclaredFeatures; !slices.Equal(got, []string{"A"}) {
		t.Errorf("got features %q, want A", got)
	}
	assumed := strings.Join(set.Assumed(), "\n")
	for _, want := range []string{
		"example.com/leaves", "support C", "nvidia.com/gpu: 2", "no resource for 1 accelerators",
	} {
		if !strings.Contains(assumed, want) {
			t.Errorf("assumed: got\n%s\nwant %q in it", assumed, want)
		}
	}

	p := newPlan()
	p.Node.Effective["reservedSystemCPUs"] = "0-1"
	p.Node.Flags = []desired.Flag{{Name: kubelet.IgnoreEvictionFlag, Value: "true"}}
	_, left = (&maker{plan: p}).resources()
	if left["cpu"] != "6" || left["memory"] != "14Gi" {
		t.Errorf("with two reserved CPUs and without eviction: got %v, want 6 CPUs and 14Gi", left)
	}
}

func TestNoNode(t *testing.T) {
	unknown := newPlan()
	unknown.Facts = nil
	incomplete := newPlan()
	incomplete.Complete = false
	for _, c := range []struct {
		plan         *evaluate.Plan
		source, want string
	}{
		{newPlan(), "", "the name of the node is not known"},
		{newPlan(), "more/n1.prelet", "node n1 is also in fleet/n1.prelet"},
		{unknown, "fleet/n2.prelet", "CPUs and memory of node n2 are not known"},
		{incomplete, "fleet/n3.prelet", "no complete plan"},
	} {
		var set Set
		if _, err := set.Add(newPlan(), "fleet/n1.prelet"); err != nil {
			t.Fatal(err)
		}
		if _, err := set.Add(c.plan, c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.source, err, c.want)
		}
	}
}
