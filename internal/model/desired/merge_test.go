package desired

import (
	"cmp"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
)

func at(stage string, line int) []origin.Origin {
	return []origin.Origin{
		{
			Kind: origin.Site,
			Ref:  stage,
			Range: hcl.Range{
				Filename: "a.hcl",
				Start:    hcl.Pos{Line: line, Column: 1},
				End:      hcl.Pos{Line: line, Column: 2, Byte: 1},
			},
		},
	}
}

var fromBase = []origin.Origin{{Kind: origin.Base, Ref: "/etc/default/kubelet"}}

func set(line int, v any, path ...string) Contribution {
	return Contribution{Settings: []Setting{{Path: path, Value: v, Delete: v == nil, Origins: at("x.y", line)}}}
}

// TestConflicts lists which sources may set the same value: an error names both places, a note the one that wins.
func TestConflicts(t *testing.T) {
	base := Base{
		Contribution: Contribution{
			Labels: []Label{{Key: "k", Value: "old", Origins: fromBase}},
			Flags:  []Flag{{Name: "v", Value: "2", Origins: fromBase}},
			Taints: []Taint{
				{Taint: kubelet.Taint{Key: "k", Value: "old", Effect: "NoSchedule"}, Origins: fromBase},
			},
		},
		Config: map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x"}},
	}
	for _, c := range readConflicts(t) {
		t.Run(c.Name, func(t *testing.T) {
			var used Base
			if c.Base {
				used = base
			}
			var in []Contribution
			for i, s := range c.Stages {
				in = append(in, s.contribution(i+1))
			}
			if c.One {
				in = []Contribution{{Taints: append(in[0].Taints, in[1].Taints...)}}
			}
			_, messages := Merge(used, in)
			checkOnly(t, messages.From(0), c.Want)
		})
	}
}

// conflictCase is a case in testdata/conflicts.yaml.
type conflictCase struct {
	Name      string
	Base, One bool
	Stages    []stageSpec
	Want      string
}

type stageSpec struct {
	By                    string
	Line                  int
	Labels, Taints, Flags []string
	Startup               bool
	Set                   map[string]any
}

func readConflicts(t *testing.T) (out []conflictCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/conflicts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (s stageSpec) contribution(line int) (out Contribution) {
	origins := at(s.By, cmp.Or(s.Line, line))
	for _, text := range s.Labels {
		key, value, _ := strings.Cut(text, "=")
		out.Labels = append(out.Labels, Label{Key: key, Value: value, Origins: origins})
	}
	for _, text := range s.Flags {
		name, value, _ := strings.Cut(text, "=")
		out.Flags = append(out.Flags, Flag{Name: name, Value: value, Origins: origins})
	}
	for _, text := range s.Taints {
		key, rest, _ := strings.Cut(text, "=")
		value, effect, _ := strings.Cut(rest, ":")
		out.Taints = append(out.Taints, Taint{
			Taint: kubelet.Taint{Key: key, Value: value, Effect: effect}, Startup: s.Startup, Origins: origins,
		})
	}
	for path, value := range s.Set {
		out.Settings = append(out.Settings, set(line, value, strings.Split(path, ".")...).Settings...)
	}
	return out
}

// checkOnly compares the only diagnostic with its line and the beginning of its words; "" is for none.
func checkOnly(t *testing.T, diags hcl.Diagnostics, want string) {
	t.Helper()
	var got []string
	for _, d := range diags {
		kind := "error"
		if origin.IsNote(d) {
			kind = "note"
		}
		got = append(got, fmt.Sprintf("%d %s %s: %s", d.Subject.Start.Line, kind, d.Summary, d.Detail))
	}
	if all := strings.Join(got, "\n"); want == "" && all != "" || !strings.HasPrefix(all, want) || len(got) > 1 {
		t.Errorf("got  %s\nwant %s", all, want)
	}
}

// TestMessagesOfLaterContributions merges two stages that disagree, and a third: what the first two say is not new.
func TestMessagesOfLaterContributions(t *testing.T) {
	label := func(line int, v string) Contribution {
		return Contribution{Labels: []Label{{Key: "k", Value: v, Origins: at("label.l"+v, line)}}}
	}
	_, messages := Merge(Base{}, []Contribution{label(1, "a"), label(2, "b"), label(3, "c")})

	checkOnly(t, messages.From(2), "3 error Two stages disagree on label k")
	if got := len(messages.From(0)); got != 2 {
		t.Errorf("messages of all contributions: got %d, want 2", got)
	}
}

func TestMergeFiles(t *testing.T) {
	file := func(line int, path string, kind FileKind) File {
		return File{Path: path, Kind: kind, Origins: at("write.w", line)}
	}
	for _, c := range []struct {
		name  string
		files []File
		want  string // of the only diagnostic: its line and its words; "" for none
	}{
		{"one path, two owners", []File{file(1, "/a", Regular), file(2, "/a", Regular)},
			`2 error Two owners of /a: It is written here, and by write.w at a.hcl:1:1.`},
		{"a file below a file", []File{file(1, "/a", Regular), file(2, "/a/b", Regular)},
			`2 error /a cannot be a file and a folder`},
		{"a file below a folder", []File{file(1, "/a", Directory), file(2, "/a/b", Regular)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, diags := MergeFiles(c.files)
			checkOnly(t, diags, c.want)
		})
	}

	files, _ := MergeFiles([]File{file(1, "/b", Regular), file(2, "/c", Regular), file(3, "/a", Regular)})
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	if want := []string{"/a", "/b", "/c"}; !slices.Equal(got, want) {
		t.Errorf("order of files: got %v, want %v", got, want)
	}
}

// TestMergePatch holds the semantics of RFC 7386 for what is contributed.
func TestMergePatch(t *testing.T) {
	base := Base{Config: map[string]any{"a": map[string]any{"b": "1", "c": "2"}, "l": []any{"x", "y"}, "s": "t"}}
	patch := map[string]any{
		"a":    map[string]any{"b": nil, "d": "3"},
		"l":    []any{"z"},
		"s":    map[string]any{"now": "object"},
		"e":    map[string]any{},
		"gone": map[string]any{"x": nil},
	}
	n, _ := Merge(base, []Contribution{{Settings: Leaves(patch, func([]string) []origin.Origin { return nil })}})
	want := map[string]any{
		"a": map[string]any{"c": "2", "d": "3"},
		"l": []any{"z"},
		"s": map[string]any{"now": "object"},
		"e": map[string]any{},
	}
	if formatValue(n.Config) != formatValue(want) {
		t.Errorf("got  %s\nwant %s", formatValue(n.Config), formatValue(want))
	}
	if formatValue(base.Config) != `{"a":{"b":"1","c":"2"},"l":["x","y"],"s":"t"}` {
		t.Errorf("the base was changed: %s", formatValue(base.Config))
	}
}

// TestHash holds what is part of a plan's identity, and what is not.
func TestHash(t *testing.T) {
	text, err := secret.TextOf(cty.StringVal("x"))
	if err != nil {
		t.Fatal(err)
	}
	make := func() Node {
		return Node{
			Labels: []Label{{Key: "k", Value: "v"}},
			Taints: []Taint{{Taint: kubelet.Taint{Key: "k", Effect: "NoSchedule"}}},
			Flags:  []Flag{{Name: "v", Value: "2"}},
			Config: map[string]any{
				"a": "b",
			},
			Files:      []File{{Path: "/a", Kind: Regular, Text: text, Mode: 0o644}},
			Activation: &Activation{Unit: "kubelet.service"},
		}
	}
	plain := make().Hash()
	for name, change := range map[string]func(*Node){
		"a label": func(n *Node) { n.Labels[0].Value = "w" }, "a taint": func(n *Node) { n.Taints[0].Effect = "NoExecute" }, "a flag": func(n *Node) { n.Flags[0].Value = "3" },
		"a field": func(n *Node) { n.Config["a"] = "c" }, "a mode": func(n *Node) { n.Files[0].Mode = 0o600 },
		"an owner": func(n *Node) { n.Files[0].Owner = "a:b" }, "create_only": func(n *Node) { n.Files[0].CreateOnly = true }, "a kind": func(n *Node) { n.Files[0].Kind = Missing },
		"the activation": func(n *Node) { n.Activation.Rollback = true },
	} {
		n := make()
		if change(&n); n.Hash() == plain {
			t.Errorf("%s does not change the hash", name)
		}
	}
	for name, change := range map[string]func(*Node){
		"origins":     func(n *Node) { n.Labels[0].Origins = at("label.l", 7) },
		"allocatable": func(n *Node) { n.Reserved = &Reserved{Allocatable: map[string]string{"cpu": "1"}} },
		"outside":     func(n *Node) { n.Files = append(n.Files, File{Path: "/b", OutsideHash: true, Text: text}) },
	} {
		n := make()
		if change(&n); n.Hash() != plain {
			t.Errorf("%s changes the hash", name)
		}
	}
}

// TestMergeHasOneOrder merges a hundred times: the order in which maps are iterated must not show.
func TestMergeHasOneOrder(t *testing.T) {
	var in []Contribution
	for i := range 20 {
		k := string(rune('a' + i))
		c := set(i, k, "f", k)
		c.Labels = []Label{{Key: k, Value: "1"}, {Key: k + "x", Value: "1"}}
		c.Taints = []Taint{{Taint: kubelet.Taint{Key: k, Effect: "NoSchedule"}}}
		in = append(in, c)
	}
	base := Base{Config: map[string]any{"f": map[string]any{"a": "old", "b": "old", "c": "old"}}}
	first, messages := Merge(base, in)
	for range 100 {
		again, more := Merge(base, in)
		if string(again.Canonical()) != string(first.Canonical()) {
			t.Fatalf("a second merge gives another plan: got %s, want %s", again.Canonical(), first.Canonical())
		}
		if got, want := more.From(0).Error(), messages.From(0).Error(); got != want {
			t.Fatalf("a second merge says something else: got %s, want %s", got, want)
		}
	}
	// Labels and new taints are sorted, so that moving a stage does not change the plan.
	moved := slices.Clone(in)
	rand.New(rand.NewSource(1)).Shuffle(len(moved), func(i, j int) { moved[i], moved[j] = moved[j], moved[i] })
	if m, _ := Merge(base, moved); m.Hash() != first.Hash() {
		t.Error("another order of stages is another plan")
	}
}

// TestEqualAmounts checks that two stages that mean the same amount agree, and that the "0s" of kubeadm's ConfigMap is
// replaced silently.
func TestEqualAmounts(t *testing.T) {
	base := Base{Config: map[string]any{"shutdownGracePeriod": "0s"}}
	n, messages := Merge(base, []Contribution{
		set(
			1,
			"2Gi",
			"kubeReserved",
			"memory",
		),
		set(2, "2048Mi", "kubeReserved", "memory"),
		set(3, "60s", "shutdownGracePeriod"),
	})
	if diags := messages.From(0); len(diags) > 0 ||
		formatValue(n.Config) != `{"kubeReserved":{"memory":"2Gi"},"shutdownGracePeriod":"60s"}` {
		t.Errorf("got %s, %v; want 2Gi and 60s, and no message", formatValue(n.Config), diags)
	}
}
