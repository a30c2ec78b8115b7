package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/table"
)

// randomEffect returns one of few effects, for a machine with a number.
func randomEffect(rng *rand.Rand, number int) Effect {
	e := Effect{
		Member: Member{Source: fmt.Sprintf("fleet/%03d.prelet", number), Node: fmt.Sprintf("node-%d", number)},
		Group: Group{
			State:    []EffectKind{Changed, Unknown, Unchanged, Failed}[rng.IntN(4)],
			Degraded: count(rng.IntN(3) == 0),
			Restarts: count(rng.IntN(2) == 0),
			Drains:   count(rng.IntN(3) == 0),
			Waits:    count(rng.IntN(4) == 0),
		},
	}
	switch e.State {
	case Failed:
		e.Code = []fault.Code{fault.Syntax, fault.ClusterDenied, fault.RecordingInvalid}[rng.IntN(3)]
		e.Reason = "because of " + e.Source
		e.Messages = []Message{{Severity: "error", Code: string(e.Code), Summary: e.Source}}
	case Changed, Unknown:
		to := string(rune('a' + rng.IntN(3)))
		e.Changes = []compare.NodeChange{{Kind: "label", Name: "x", Action: "update", From: "o", To: to}}
	}
	if rng.IntN(3) > 0 {
		e.Declares = &[]rules.Declaration{}
		for _, name := range []string{"InPlaceA", "InPlaceB"} {
			*e.Declares = append(*e.Declares, rules.Declaration{Name: name, Declared: rng.IntN(2) == 0})
		}
	}
	if rng.IntN(5) == 0 {
		e.Causes = []string{"variable " + string(rune('a'+rng.IntN(3)))}
	}
	if rng.IntN(5) == 0 {
		e.Assumed = []Assumed{{Kind: "variable", Name: string(rune('a' + rng.IntN(3))), From: "--var"}}
	}

	return e
}

// Whatever the machines and however they are divided, the merged parts are the report of the whole, also after their
// way through JSON and in any order.
func TestMergeEqualsWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 2))
	for round := range 200 {
		of := 1 + rng.IntN(5)
		whole := NewReport("1")
		parts := make([]*FleetEffect, of)
		names := make([]string, of)
		for i := range parts {
			parts[i] = NewReport("1")
			parts[i].Shard = &Shard{Index: i, Of: of}
			names[i] = fmt.Sprint("part ", i)
		}
		for number := range rng.IntN(40) {
			e := randomEffect(rng, number)
			whole.Add(e)
			parts[rng.IntN(of)].Add(e)
		}
		whole.Finish()
		for i, part := range parts {
			part.Finish()
			parts[i] = throughJSON(t, part)
		}
		rng.Shuffle(of, func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })

		merged, err := Merge(parts, names)
		if err != nil {
			t.Fatalf("round %d: merge of %d parts: got error %v, want none", round, of, err)
		}
		got, want := toJSON(t, merged), toJSON(t, whole)
		if got != want || merged.Code() != whole.Code() {
			t.Fatalf("round %d: merge of %d parts: got code %q and\n%s\nwant %q and\n%s",
				round, of, merged.Code(), got, whole.Code(), want)
		}
	}
}

func toJSON(t *testing.T, r *FleetEffect) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func throughJSON(t *testing.T, r *FleetEffect) *FleetEffect {
	t.Helper()
	out, err := Decode([]byte(toJSON(t, r)))
	if err != nil {
		t.Fatalf("Decode(%s): got error %v, want none", toJSON(t, r), err)
	}
	return out
}

// FuzzDecode reads any bytes as a partial result: it is refused with a code, or can be merged.
func FuzzDecode(f *testing.F) {
	r := NewReport("1")
	r.Shard = &Shard{Of: 1}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 4 {
		r.Add(randomEffect(rng, i))
	}
	r.Finish()
	text, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"kind":"fleet","format_version":2}`))
	f.Add([]byte(`{"kind":"fleet","format_version":1,"shard":{"index":0,"of":1},"groups":[{"id":"a","state":"failed","count":1,"machines":[{}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		part, err := Decode(text)
		if err != nil {
			if fault.CodeOf(err) != fault.RecordingInvalid {
				t.Errorf("Decode(%q): got code %q, want %q", text, fault.CodeOf(err), fault.RecordingInvalid)
			}
			return
		}
		part.Shard = &Shard{Of: 1}
		merged, err := Merge([]*FleetEffect{part}, []string{"part"})
		if err != nil {
			t.Fatalf("Merge of %q: got error %v, want none", text, err)
		}
		_ = merged.Code()
	})
}

// A group is named by the fewest traits that no other group has all of: a value, two values, or what it lacks.
func TestApart(t *testing.T) {
	change := func(name, to string) compare.NodeChange {
		return compare.NodeChange{Kind: "label", Name: name, Action: "create", To: to}
	}
	r := NewReport("1")
	for i, changes := range [][]compare.NodeChange{
		{change("site", "a"), change("arch", "amd64"), change("kind", "cpu")},
		{change("site", "a"), change("arch", "arm64"), change("kind", "cpu")},
		{change("site", "a"), change("arch", "amd64"), change("kind", "gpu"), change("gpu", "h100")},
		{change("site", "a"), change("arch", "amd64"), change("kind", "gpu")},
	} {
		r.Add(Effect{
			Member: Member{Source: fmt.Sprint(i)},
			Group:  Group{State: Changed, Changes: changes, Restarts: 1, Messages: []Message{{Code: "c", Summary: "s"}}},
		})
	}
	r.Add(Effect{Member: Member{Source: "4"}, Group: Group{State: Unchanged}})
	r.Finish()

	var got []string
	for _, g := range r.Groups {
		line := g.Machines[0].Source
		for _, c := range g.Apart {
			line += fmt.Sprintf(" %s=%s", c.Name, c.To)
			if c.Lacks {
				line += "(none)"
			}
		}
		got = append(got, line)
	}
	want := []string{"0 arch=amd64 kind=cpu", "1 arch=arm64", "2 gpu=h100", "3 gpu=(none) kind=gpu", "4"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("apart: got %q, want %q", got, want)
	}

	if c := r.Common; c.Count != 4 || c.Restarts != 4 || len(c.Messages) != 1 || !reflect.DeepEqual(c.Changes, r.Groups[0].Changes[:1]) {
		t.Errorf("in common: got %+v; want site=a, a message and a restart of 4 machines", c)
	}
	if own := r.Own(r.Groups[1]); own.Restarts != 0 || len(own.Messages) != 0 || len(own.Changes) != 2 {
		t.Errorf("own of group 1: got %+v; want arch and kind only", own)
	}
}

// Machines that would have one node name are named, also over the parts of shards; a plan that failed has no name.
func TestTwins(t *testing.T) {
	member := func(source, node string) Effect {
		return Effect{Member: Member{Source: source, Node: node}, Group: Group{State: Changed}}
	}
	failed := Effect{Member: Member{Source: "f", Node: "n1", Code: fault.HardwareFailed}, Group: Group{State: Failed}}
	shards := [][]Effect{{member("b", "n1"), member("c", "n2"), failed}, {member("a", "n1"), member("d", ""), member("e", "")}}

	var parts []*FleetEffect
	for i, effects := range shards {
		r := NewReport("1")
		r.Shard = &Shard{Index: i, Of: len(shards)}
		for _, e := range effects {
			r.Add(e)
		}
		r.Finish()
		if r.Twins != nil {
			t.Errorf("shard %d: got %v, want no twins", i, r.Twins)
		}
		parts = append(parts, throughJSON(t, r))
	}
	all, err := Merge(parts, []string{"0", "1"})
	want := []Twin{{"n1", []string{"a", "b"}}}
	if err != nil || !reflect.DeepEqual(all.Twins, want) {
		t.Errorf("merged: got %v, %v; want %v", all.Twins, err, want)
	}
}

// Property: over random fleets, no other group has all traits by which a group is named, and what is common together
// with what is a group's own is what the group has.
func TestApartAndCommonOfRandomFleets(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	named := 0
	for range 300 {
		r := NewReport("1")
		for m := range 2 + rng.IntN(12) {
			var changes []compare.NodeChange
			for i := range 6 {
				if v := rng.IntN(4); v > 0 {
					c := compare.NodeChange{Kind: "label", Name: fmt.Sprint(i), Action: "create", To: fmt.Sprint(v)}
					changes = append(changes, c)
				}
			}
			r.Add(Effect{Member: Member{Source: fmt.Sprint(m)}, Group: Group{State: Changed, Changes: changes}})
		}
		r.Finish()

		for i, g := range r.Groups {
			if len(g.Apart) == 0 {
				continue
			}
			named++
			for j, other := range r.Groups {
				if hasAll := !slices.ContainsFunc(g.Apart, func(t Trait) bool { return !hasTrait(other, t) }); hasAll != (i == j) {
					t.Fatalf("group %d is named by %v; group %d has all of it: %v", i, g.Apart, j, hasAll)
				}
			}
			if n := len(r.Own(g).Changes) + len(r.Common.Changes); n != len(g.Changes) {
				t.Fatalf("got %d changes of its own and in common, want %d", n, len(g.Changes))
			}
		}
	}
	t.Logf("%d groups are named by what sets them apart", named)
	if named == 0 {
		t.Error("no group was named by what sets it apart")
	}
}

func hasTrait(g Group, t Trait) bool {
	return t.Lacks != slices.ContainsFunc(g.Changes, func(c compare.NodeChange) bool {
		return c.Kind == t.Kind && c.Name == t.Name && (t.Lacks || c == t.NodeChange)
	})
}

// A value counts as a whole word only.
func TestReplaceOwnValues(t *testing.T) {
	own := names{
		{"2001:db8::10", "{IPv6}"}, {"gpu-17.example", "{node name}"}, {"10.0.0.1", "{address}"}, {"gpu-17", "{host}"},
	}
	for text, want := range table.YAML[map[string]string](t, `
'': ''
10.0.0.1: '{address}'
'10.0.0.17, 110.0.0.1': 10.0.0.17, 110.0.0.1
10.0.0.1:6443 and 10.0.0.1/24: '{address}:6443 and {address}/24'
at 10.0.0.1. Then: at {address}. Then
--hostname-override=gpu-17.example --x=gpu-17: --hostname-override={node name} --x={host}
gpu-170 xgpu-17: gpu-170 xgpu-17
'[2001:db8::10]:80 10.0.0.1x': '[{IPv6}]:80 10.0.0.1x'
10.0.0.110.0.0.1: 10.0.0.110.0.0.1
`) {
		if got := own.replace(text); got != want {
			t.Errorf("replace(%q): got %q, want %q", text, got, want)
		}
	}
}

// TestNewMessages: a comparison has the messages about what the older plan has not, and all errors.
func TestNewMessages(t *testing.T) {
	at := func(line int, severity hcl.DiagnosticSeverity, summary string, extra any) *hcl.Diagnostic {
		return &hcl.Diagnostic{Severity: severity, Summary: summary, Extra: extra,
			Subject: &hcl.Range{Filename: "a.hcl", Start: hcl.Pos{Line: line}}}
	}
	about := func(item string) origin.Extra { return origin.Extra{Code: fault.KubeletFlag, Item: item} }
	note := origin.Extra{Code: fault.NullFact, Note: true}
	old := &evaluate.Plan{Diagnostics: hcl.Diagnostics{
		at(1, hcl.DiagWarning, "flag a is 1", about("flag/a")),
		at(1, hcl.DiagError, "flag b", about("flag/b")),
		at(1, hcl.DiagWarning, "No label a", note),
		at(2, hcl.DiagWarning, "No taint", note),
		at(3, hcl.DiagWarning, "Not read", note),
		at(4, hcl.DiagWarning, "Failed", coded(fault.NullFact)),
	}}
	planned := &evaluate.Plan{Diagnostics: hcl.Diagnostics{
		at(5, hcl.DiagWarning, "flag a is 2", about("flag/a")),
		at(5, hcl.DiagError, "flag b", about("flag/b")),
		at(5, hcl.DiagWarning, "flag c", about("flag/c")),
		at(5, hcl.DiagWarning, "No label a", note),
		at(5, hcl.DiagWarning, "No label b", note),
		at(6, hcl.DiagWarning, "No taint", note),
		at(7, hcl.DiagWarning, "No taint", note),
		at(8, hcl.DiagWarning, "Not read", note),
		at(8, hcl.DiagWarning, "Not read", note), // said twice
		at(9, hcl.DiagWarning, "Failed", coded(fault.NullFact)),
		at(9, hcl.DiagWarning, "Failed", coded(fault.Evaluation)),
	}}
	var got []string
	for _, m := range NewEffect("", old, planned, &tape.Recording{}).Messages {
		got = append(got, m.Code+" "+m.Summary)
	}
	want := []string{
		"kubelet-flag flag b", "evaluation Failed", "kubelet-flag flag c", "null-fact No label b", "null-fact No taint",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got messages about %q, want %q", got, want)
	}
}

// coded is an Extra of another package.
type coded fault.Code

func (c coded) DiagnosticCode() fault.Code { return fault.Code(c) }
