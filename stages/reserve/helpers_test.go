package reserve

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// scope is a schema.Evaluator over literals, as far as this stage needs one; `unknown` is an unknown value.
type scope struct{ schema.Evaluator }

func (scope) Value(_ schema.Spec, e hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	return e.Value(&hcl.EvalContext{Variables: map[string]cty.Value{"unknown": cty.DynamicVal, "known": cty.True}})
}

func (scope) Item(e hclsyntax.Expression, key string) hclsyntax.Expression {
	o, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	for _, it := range o.Items {
		if k, _ := it.KeyExpr.Value(nil); k.IsKnown() && k.AsString() == key {
			return it.ValueExpr
		}
	}
	return nil
}

func (s scope) Key(e hclsyntax.Expression, key string) hclsyntax.Expression { return s.Item(e, key) }

func (scope) IsReported(schema.Spec) bool { return false }

func (scope) Origins(e hclsyntax.Expression) []origin.Origin {
	return []origin.Origin{{Kind: origin.Site, Role: origin.Value, Ref: "reserve.node", Range: e.Range()}}
}

func (scope) Default(s schema.Spec, _ hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics) {
	return cty.NullVal(s.Type), nil, nil
}

func (s scope) Expand(*hclsyntax.Body) ([]schema.Copy, hcl.Diagnostics) {
	return []schema.Copy{{Eval: s}}, nil
}

// result is the result of Decide.
type result struct {
	c     desired.Contribution
	out   map[string]cty.Value
	node  desired.Node
	diags hcl.Diagnostics
}

// decide runs the stage as the boot does: checks the form, decodes, decides, merges.
func decide(t testing.TB, text string, in stages.Inputs) result {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(text), "site.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	body := file.Body.(*hclsyntax.Body)
	spec := Stage{}.Spec()
	if diags := spec.Check(body, nil); diags.HasErrors() {
		return result{diags: diags}
	}
	cfg, diags := spec.Decode(body, nil, scope{})
	if diags.HasErrors() {
		return result{diags: diags}
	}
	in.Address = "reserve.node"
	c, out, more := Stage{}.Decide(cfg, in)
	r := result{c: c, diags: append(diags, more...)}
	want := Stage{}.Outputs(stages.Declared{})
	if !out.Value.Type().Equals(want) {
		t.Fatalf("output: got type %#v, want %#v as declared", out.Value.Type(), want)
	}
	r.out = out.Value.AsValueMap()
	n, messages := desired.Merge(in.Base, []desired.Contribution{c})
	if conflicts := messages.From(0); conflicts.HasErrors() {
		t.Fatal(conflicts)
	}
	if n.Reserved != nil { // as the boot finishes the node
		merged, err := stages.MergeDropIns(n, nil, "")
		must(t, err)
		n.Effective = merged.Effective(n.Flags)
		reserved, refused := n.Reserved.Finish(n)
		n.Reserved, r.diags = reserved, append(r.diags, refused...)
		if refused.HasErrors() { // nothing comes of it
			r.c = desired.Contribution{}
		}
	}
	r.node = n
	return r
}

// mustDecide fails the test on errors.
func mustDecide(t testing.TB, text string, in stages.Inputs) result {
	t.Helper()
	r := decide(t, text, in)
	if r.diags.HasErrors() {
		t.Fatalf("%s: got %s, want no errors", text, r.diags)
	}
	return r
}

func ptr[T any](v T) *T { return &v }

// machineOf has one NUMA node, and two threads a core if cpus is even: 0 and 1, 2 and 3, …
func machineOf(cpus int, bytes int64) stages.Inputs {
	f := &tape.Facts{CPU: tape.CPU{Logical: ptr(cpus)}, Memory: tape.Memory{TotalBytes: ptr(bytes)}}
	n := tape.NUMANode{MemoryBytes: ptr(bytes)}
	step := 1
	if cpus%2 == 0 {
		step = 2
	}
	for i := 0; i < cpus; i += step {
		c := tape.CPUCore{Node: ptr(0), Package: ptr(0)}
		for j := i; j < i+step; j++ {
			c.CPUs = append(c.CPUs, j)
			n.CPUs = append(n.CPUs, j)
		}
		f.CPU.Cores = append(f.CPU.Cores, c)
	}
	f.NUMA = []tape.NUMANode{n}
	return stages.Inputs{Readings: stages.Readings{Facts: f}}
}

// sockets has as many cores on each NUMA node; with siblings, thread n+all is the sibling of thread n, as Linux
// numbers them on Intel.
func sockets(nodes, cores int, siblings bool, bytes int64) stages.Inputs {
	f := &tape.Facts{Memory: tape.Memory{TotalBytes: ptr(bytes)}}
	all := nodes * cores
	for s := range nodes {
		n := tape.NUMANode{ID: s, MemoryBytes: ptr(bytes / int64(nodes))}
		for c := range cores {
			id := s*cores + c
			core := tape.CPUCore{Node: ptr(s), Package: ptr(s), CPUs: []int{id}}
			if siblings {
				core.CPUs = append(core.CPUs, id+all)
			}
			n.CPUs = append(n.CPUs, core.CPUs...)
			f.CPU.Cores = append(f.CPU.Cores, core)
		}
		f.NUMA = append(f.NUMA, n)
	}
	logical := all
	if siblings {
		logical *= 2
	}
	f.CPU.Logical = ptr(logical)
	return stages.Inputs{Readings: stages.Readings{Facts: f}}
}

// machineSpec is a machine in testdata/cases.yaml.
type machineSpec struct {
	CPUs, Sockets, Cores int
	Siblings             bool
	Memory               resource.Quantity
	HugePages            []map[string]int
	FirstNode            *resource.Quantity  `json:"first node"`
	MoreNodes            []resource.Quantity `json:"more nodes"`
	Facts                json.RawMessage
}

func (m machineSpec) inputs(t *testing.T) stages.Inputs {
	t.Helper()
	in := machineOf(m.CPUs, m.Memory.Value())
	if m.Sockets > 0 {
		in = sockets(m.Sockets, m.Cores, m.Siblings, m.Memory.Value())
	}
	if m.FirstNode != nil {
		*in.Facts.Memory.TotalBytes += m.FirstNode.Value() - *in.Facts.NUMA[0].MemoryBytes
		in.Facts.NUMA[0].MemoryBytes = ptr(m.FirstNode.Value())
	}
	for _, memory := range m.MoreNodes {
		n := tape.NUMANode{ID: len(in.Facts.NUMA), CPUs: []int{}, MemoryBytes: ptr(memory.Value())}
		in.Facts.NUMA = append(in.Facts.NUMA, n)
		*in.Facts.Memory.TotalBytes += memory.Value()
	}
	if m.HugePages != nil {
		in = withHugePages(in, m.HugePages...)
	}
	if m.Facts != nil {
		must(t, json.Unmarshal(m.Facts, in.Facts))
	}
	return in
}

// stageCase is a case in testdata/cases.yaml.
type stageCase struct {
	Name, Site   string
	Machine      *machineSpec
	Base         json.RawMessage
	Flags        map[string]string
	Config       json.RawMessage
	Begins, Want string
}

// readCases returns the cases of a section.
func readCases(t *testing.T, section string) []stageCase {
	t.Helper()
	text, err := os.ReadFile("testdata/cases.yaml")
	must(t, err)
	var all map[string][]stageCase
	must(t, yaml.UnmarshalStrict(text, &all))
	if len(all[section]) == 0 {
		t.Fatalf("got no cases of %q, want some", section)
	}
	return all[section]
}

func (c stageCase) inputs(t *testing.T) (in stages.Inputs) {
	t.Helper()
	if c.Machine != nil {
		in = c.Machine.inputs(t)
	}
	if c.Base != nil {
		var base map[string]any
		d := json.NewDecoder(bytes.NewReader(c.Base))
		d.UseNumber()
		must(t, d.Decode(&base))
		in = withBase(in, base)
	}
	for name, value := range c.Flags {
		in.Base.Flags = append(in.Base.Flags, desired.Flag{Name: name, Value: value})
	}
	return in
}

// checkMessages compares how the messages begin, and a part of them. Without both, there is none.
func (c stageCase) checkMessages(t *testing.T, r result) {
	t.Helper()
	got := formatDiagnostics(r.diags)
	if !strings.HasPrefix(got, c.Begins) || !strings.Contains(got, c.Want) || c.Begins+c.Want == "" && got != "" {
		t.Errorf("got  %s\nwant %s… with %s", got, c.Begins, c.Want)
	}
}

func withBase(in stages.Inputs, config map[string]any) stages.Inputs {
	in.Base = desired.Base{Config: config, ConfigKnown: true}
	return in
}

// formatDiagnostics returns the code, place, summary and detail of each diagnostic.
func formatDiagnostics(diags hcl.Diagnostics) string {
	var all []string
	for _, d := range diags {
		place := "-"
		if d.Subject != nil {
			place = d.Subject.String()
		}
		all = append(all, string(origin.CodeOf(d))+" "+place+"\n"+d.Summary+"\n"+d.Detail)
	}
	return strings.Join(all, "\n")
}
