package reserve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/stages"
)

// config is the merged KubeletConfiguration, as JSON.
func config(t *testing.T, r result) string {
	t.Helper()
	b, err := json.Marshal(r.node.Config)
	must(t, err)
	return string(b)
}

// memTotal is what a kernel of a machine with that many GiB says.
func memTotal(n int64) int64 { return n*gib - 300*mib - 4*kib }

func TestPoliciesOverBases(t *testing.T) {
	for _, c := range readCases(t, "configurations") {
		t.Run(c.Name, func(t *testing.T) {
			in := c.inputs(t)
			in.Base.ConfigKnown = true
			r := mustDecide(t, c.Site, in)
			if d := cmp.Diff(string(c.Config), config(t, r)); d != "" {
				t.Errorf("configuration (-want +got):\n%s", d)
			}
		})
	}
}

// amount reads a quantity that the stage has printed.
func amount(t *testing.T, m map[string]string, name string) int64 {
	t.Helper()
	if m[name] == "" {
		return 0
	}
	q := resource.MustParse(m[name])
	if name == cpu {
		return q.MilliValue()
	}
	return q.Value()
}

// allocatable + reserved + eviction = capacity, and reserved_memory adds up to what the memory manager wants.
func TestSums(t *testing.T) {
	sites := []string{
		`policy = "gke"`,
		"policy = \"eks\"\nmax_pods = 20",
		`policy = "aks"`,
		`policy = "gdc"`,
		"policy = \"static\"\nstatic { memory = \"1234567Ki\" }",
		"policy = \"remainder\"\nremainder {\n cpus = 1\n memory = \"30%\"\n}",
		"policy = \"gke\"\nfloor = { memory = \"1001Mi\" }",
		"policy = \"gke\"\ntopology { cores = 1 }",
	}
	bases := table.YAML[[]map[string]any](t, `
- null
- {evictionHard: {memory.available: 3.3%}}
- {systemReserved: {memory: 100M, cpu: 50m}}
`)
	for _, site := range sites {
		for _, nodes := range []int{1, 2, 3} {
			for _, bytes := range []int64{memTotal(6), memTotal(64), 768 * gib} {
				for b, base := range bases {
					in := withBase(sockets(nodes, 6/nodes, true, bytes), base)
					in.Facts.Memory.HugePages = map[string]int{"2Mi": 100, "1Gi": 0}
					r := mustDecide(t, site, in)
					at := fmt.Sprintf("%s, %d nodes, %d bytes, base %d", site, nodes, bytes, b)
					res := r.c.Reserved
					eviction, err := thresholdBytes(res.EvictionHard["memory.available"], bytes)
					must(t, err)
					reserved := amount(t, res.Kube, memory) + amount(t, res.System, memory) + eviction
					if got := amount(t, res.Allocatable, memory) + reserved + 200*mib; got != bytes {
						t.Errorf("%s: sum of memory: got %d, want the capacity", at, got)
					}
					whole := int64(0)
					if res.CPUs != "" {
						whole = 2000
					}
					left, taken := amount(t, res.Allocatable, cpu), amount(t, res.Kube, cpu)+amount(t, res.System, cpu)
					if got := left + taken + whole; got != 12000 {
						t.Errorf("%s: sum of cpu: got %dm, want the capacity", at, got)
					}
					if res.Allocatable["hugepages-2Mi"] != "200Mi" || res.Allocatable["hugepages-1Gi"] != "" {
						t.Errorf("%s: got allocatable %v, want the huge pages in it", at, res.Allocatable)
					}
					var spread []int64
					total := int64(0)
					for it := r.out["reserved_memory"].ElementIterator(); it.Next(); {
						_, v := it.Element()
						q := resource.MustParse(v.GetAttr("limits").AsValueMap()[memory].AsString())
						spread = append(spread, q.Value())
						total += q.Value()
					}
					if total != reserved || len(spread) != nodes {
						t.Errorf("%s: got reserved memory %v, want %d in all", at, spread, reserved)
					}
					for i, n := range spread[1:] {
						if n%mib != 0 || n > spread[0] || spread[0]-n >= int64(nodes)*mib {
							t.Errorf("%s: node %d: got %d of %v, want an equal part", at, i+1, n, spread)
						}
					}
				}
			}
		}
	}
}

// A training node: two sockets of 56 cores with siblings.
func TestOutputs(t *testing.T) {
	in := sockets(2, 56, true, 256*gib)
	r := mustDecide(
		t,
		"policy = \"gke\"\nmax_pods = 64\nfloor = { memory = \"16Gi\" }\ntopology {\n cores = 4\n spread = \"numa\"\n}",
		in,
	)
	b, err := codec.ToGo(cty.ObjectVal(r.out))
	must(t, err)
	want := map[string]any{
		"kube_reserved":   map[string]any{"memory": "16Gi"},
		"system_reserved": map[string]any{},
		"reserved_cpus":   "0-1,56-57,112-113,168-169",
		"reserved_memory": []any{
			map[string]any{"numaNode": int64(0), "limits": map[string]any{"memory": "8242Mi"}},
			map[string]any{"numaNode": int64(1), "limits": map[string]any{"memory": "8242Mi"}},
		},
		"eviction_hard": map[string]any{
			"memory.available":   "100Mi",
			"nodefs.available":   "10%",
			"nodefs.inodesFree":  "5%",
			"imagefs.available":  "15%",
			"imagefs.inodesFree": "5%",
		},
		"max_pods":    int64(64),
		"allocatable": map[string]any{"cpu": "216", "memory": "245660Mi"},
	}
	if d := cmp.Diff(want, b); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(
		`{"kubeReserved":{"memory":"16Gi"},"maxPods":64,"reservedSystemCPUs":"0-1,56-57,112-113,168-169"}`,
		config(t, r),
	); d != "" {
		t.Error(d)
	}
	raw, err := json.Marshal(r.c.Reserved.Memory)
	if d := cmp.Diff(
		`[{"limits":{"memory":"8242Mi"},"numaNode":0},{"limits":{"memory":"8242Mi"},"numaNode":1}]`,
		string(raw),
	); d != "" ||
		err != nil {
		t.Error(d, err)
	}
}

func TestEachSettingHasItsArithmetic(t *testing.T) {
	r := mustDecide(t, "policy = \"gke\"\nfloor = { memory = \"3Gi\" }\nmax_pods = 50", machineOf(4, memTotal(16)))
	got := map[string]string{}
	for _, s := range r.c.Settings {
		var words []string
		for _, o := range s.Origins {
			if o.Kind == origin.Site {
				words = append(words, fmt.Sprintf("%s:%d", o.Ref, o.Range.Start.Line))
			} else {
				words = append(words, fmt.Sprintf("[%s %s] %s", o.Kind, o.Ref, o.Text))
			}
		}
		got[s.Pointer()] = strings.Join(words, "\n")
	}
	want := map[string]string{
		"/kubeReserved/cpu": "reserve.node:1\n[policy policy gke] 6% of core 1: 60m\n[policy policy gke] 1% " +
			"of core 2: 10m\n[policy policy gke] 0.5% of each of cores 3 to 4: 10m\n[policy policy gke] together: 80m",
		"/kubeReserved/memory": "reserve.node:1\n[policy policy gke] MemTotal 16470012Ki, rounded down to " +
			"64Mi: 16064Mi\n[policy policy gke] 25% of the first 4Gi: 1Gi\n[policy policy gke] 20% of the next " +
			"4Gi: 819.2Mi\n[policy policy gke] 10% of the next 7872Mi: 787.2Mi\n[policy policy gke] together: " +
			"2630Mi\nreserve.node:2\n[policy policy gke] floor.memory: 2630Mi becomes 3Gi",
		"/maxPods": "reserve.node:3",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// One MiB more or less of the kernel's own memory does not change the plan; it changes allocatable.
func TestAKernelUpdateChangesNoPlan(t *testing.T) {
	for _, site := range []string{`policy = "gke"`, `policy = "aks"`, `policy = "gdc"`, "policy = \"remainder\"\nremainder { memory = \"20%\" }"} {
		a, b := mustDecide(t, site, machineOf(8, 8*gib-40*mib)), mustDecide(t, site, machineOf(8, 8*gib-41*mib))
		if a.node.Hash() != b.node.Hash() {
			t.Errorf("%s: got another hash of the plan, want the same", site)
		}
		if a.c.Reserved.Allocatable[memory] == b.c.Reserved.Allocatable[memory] {
			t.Errorf("%s: got allocatable %v, want it of the true capacity", site, a.c.Reserved.Allocatable)
		}
	}
}

func TestUnknownGivesUnknown(t *testing.T) {
	known := machineOf(16, 64*gib)
	cases := append(readCases(t, "unknown"), stageCase{Name: "no machine", Site: `policy = "gke"`})
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			in := known
			if c.Name == "no machine" {
				in = stages.Inputs{Check: true}
			}
			r := decide(t, c.Site, in)
			if len(r.diags) > 0 {
				t.Error(r.diags)
			}
			if d := cmp.Diff(desired.Contribution{}, r.c); d != "" {
				t.Errorf("got a contribution, want none: %s", d)
			}
			for k, v := range r.out {
				if v.IsKnown() {
					t.Errorf("%s: got %#v, want an unknown", k, v)
				}
			}
		})
	}
	// What a block that is not chosen says does not matter.
	if r := mustDecide(t, "policy = \"gke\"\nstatic { cpu = unknown }", known); !r.out["max_pods"].IsKnown() {
		t.Error("the block of another policy makes the outputs unknown")
	}
	// A sample machine is computed for real, though the base is unknown.
	in := known
	in.Check = true
	if r := mustDecide(t, `policy = "gke"`, in); !r.out["max_pods"].RawEquals(cty.NumberIntVal(110)) {
		t.Errorf("max_pods of a sample machine: got %#v, want a number", r.out["max_pods"])
	}
}

func TestNotesAndWarnings(t *testing.T) {
	r := mustDecide(t, "policy = \"gke\"\nstatic { cpu = 1 }", machineOf(4, 8*gib))
	if got, want := formatDiagnostics(
		r.diags,
	), "override-ignored site.hcl:2,1-7\nBlock static is not used\nThe policy is gke. "+
		"Write policy = \"static\", or remove the block."; got != want ||
		!origin.IsNote(r.diags[0]) {
		t.Errorf("got %s\nwant the note %s", got, want)
	}
	r = mustDecide(t, "policy = \"remainder\"\nremainder { memory = \"10%\" }", machineOf(4, 16*gib-gib/2))
	if got := formatDiagnostics(
		r.diags,
	); !strings.Contains(got, "10% of 15Gi: 1Gi, half of it for each, in whole Gi: 0") ||
		!origin.IsNote(r.diags[0]) {
		t.Errorf("got %s, want a note that no memory is reserved", got)
	}
	in := machineOf(4, 8*gib)
	in.Base.Flags = []desired.Flag{
		{Name: "max-pods", Value: "30"},
		{Name: "kube-reserved", Value: "cpu=1"},
		{Name: "v", Value: "4"},
	}
	r = mustDecide(t, `policy = "aks"`, in)
	if got := formatDiagnostics(r.diags); !strings.Contains(got, "The base has --kube-reserved=cpu=1") ||
		r.diags[len(r.diags)-1].Severity != hcl.DiagWarning {
		t.Errorf("got %s, want a warning of the flag", got)
	}
	if got := config(t, r); got != `{"kubeReserved":{"cpu":"140m","memory":"650Mi"}}` {
		t.Errorf("with --max-pods=30 in the base: got the configuration %s, want memory for 30 pods", got)
	}
	if got := r.node.Reserved; got.MaxPods != 30 || fmt.Sprint(got.Kube) != "map[cpu:1]" ||
		got.Allocatable[memory] != "8092Mi" {
		t.Errorf("with --kube-reserved=cpu=1 in the base: got %+v, want 30 pods, and only that CPU reserved", got)
	}
}

// A kubelet with static managers starts with the result, by its own rules: the sum of reservedMemory, no amount of cpu
// together with reservedSystemCPUs, whole thresholds.
func TestTheKubeletTakesIt(t *testing.T) {
	bases := table.YAML[[]map[string]any](t, `
- null
- {evictionHard: {memory.available: 300Mi}, systemReserved: {memory: 1Gi, cpu: '1'}, kubeReserved: {cpu: '1'}}
`)
	for _, policy := range []string{"gke", "eks", "aks", "gdc", "static", "remainder"} {
		for _, topology := range []string{"", "topology {\n cores = 2\n spread = \"numa\"\n}"} {
			for b, base := range bases {
				site := fmt.Sprintf(
					"policy = %q\nstatic {\n cpu = 2\n memory = \"3Gi\"\n}\nremainder {\n cpus = 25\n memory = "+
						"\"10%%\"\n}\n%s",
					policy,
					topology,
				)
				r := mustDecide(t, site, withBase(sockets(2, 8, true, memTotal(256)), base))
				list, err := codec.ToGo(r.out["reserved_memory"])
				must(t, err)
				c := kubelet.NewConfig()
				must(t, c.Merge(r.node.Config))
				must(t, c.Merge(
					map[string]any{
						"cpuManagerPolicy":    "static",
						"memoryManagerPolicy": "Static",
						"reservedMemory":      list,
					},
				))
				for _, p := range rules.Check(rules.Subject{Config: c}) {
					t.Errorf("%s %q, base %d: got %+v, want no finding of the kubelet's rules", policy, topology, b, p)
				}
			}
		}
	}
}

// The facts of a machine with nodes that have no CPUs (memory of GPUs, or of CXL) and one without memory.
func TestReservedMemoryIsWhereCPUsAre(t *testing.T) {
	in := sockets(2, 8, false, 64*gib)
	in.Facts.NUMA = append(
		in.Facts.NUMA,
		tape.NUMANode{ID: 2, MemoryBytes: ptr(96 * gib)},
		tape.NUMANode{ID: 3, CPUs: []int{}, MemoryBytes: ptr(int64(0))},
	)
	in.Facts.NUMA[1].MemoryBytes = ptr(int64(0))
	r := mustDecide(t, "policy = \"static\"\nstatic { memory = \"1Gi\" }", in)
	raw, _ := json.Marshal(r.c.Reserved.Memory)
	if string(raw) != `[{"limits":{"memory":"1124Mi"},"numaNode":0}]` {
		t.Errorf("got %s, want memory only of nodes with CPUs", raw)
	}
}

// TestUnusedBlocksOfAChosenPolicy: a policy that is chosen by the machine has blocks for other machines, which needs no
// message.
func TestUnusedBlocksOfAChosenPolicy(t *testing.T) {
	site := "policy = %s\nstatic { cpu = 1 }\nremainder { cpus = 1 }"
	if r := mustDecide(t, fmt.Sprintf(site, `"static"`), machineOf(4, 8*gib)); len(r.diags) != 1 {
		t.Errorf("literal policy: got %v, want a note of remainder", r.diags)
	}
	if r := mustDecide(t, fmt.Sprintf(site, `known ? "static" : "remainder"`), machineOf(4, 8*gib)); len(r.diags) != 0 {
		t.Errorf("policy by the machine: got %v, want no note", r.diags)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
