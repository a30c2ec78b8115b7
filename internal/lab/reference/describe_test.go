package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/schema"
)

func TestEveryOutputIsDocumented(t *testing.T) {
	ref := parseProse()

	for _, s := range Collect().Stages {
		for _, o := range s.Outputs {
			if o.Doc == "" {
				t.Errorf("output %s of %s: got no doc, want one in reference.yaml", o.Name, s.Block.Type)
			}
		}
		var have []string
		for _, o := range s.Outputs {
			have = append(have, o.Name)
		}
		for _, d := range outputDocs(s.Block.Type, ref) {
			if !slices.Contains(have, d.Name) {
				t.Errorf("reference.yaml documents output %s of %s; want only outputs that the stage has",
					d.Name, s.Block.Type)
			}
		}
		if !slices.Contains(have, "state") {
			t.Errorf("outputs of %s: got %v, want state among them", s.Block.Type, have)
		}
	}
}

func TestEveryFactIsDocumented(t *testing.T) {
	f := Collect().Facts
	have := map[string]bool{}
	for _, r := range f.Rows() {
		have[r.Path] = true
		if r.Doc == "" {
			t.Errorf("fact %s: got no doc, want one in reference.yaml", r.Path)
		}
	}
	for _, d := range f.Docs {
		if !have[d.Path] {
			t.Errorf("reference.yaml documents fact %s; want only facts that detect-hw has", d.Path)
		}
		if d.Like == "" {
			continue
		}
		if a, b := f.Type.AttributeType(d.Path), f.Type.AttributeType(d.Like); !a.Equals(b) {
			t.Errorf("type of fact %s: got %s, want that of %s", d.Path, a.FriendlyName(), d.Like)
		}
	}
	if len(have) < 80 {
		t.Errorf("got %d facts, want at least 80", len(have))
	}
}

func TestEveryFunctionIsListed(t *testing.T) {
	l := Collect()
	have := map[string]Function{}
	for _, f := range l.Functions {
		if f.Doc == "" || f.Usage == "" {
			t.Errorf("function %s: got doc %q and usage %q, want both", f.Name, f.Doc, f.Usage)
		}
		if _, dup := have[f.Name]; dup {
			t.Errorf("function %s: got it twice, want it once", f.Name)
		}
		have[f.Name] = f
	}
	for name := range functions.All() {
		delete(have, name)
	}
	// Functions that read, or that need the site, are not in that table.
	for _, name := range []string{"credential", "file", "fileexists", "sitedata", "templatefile"} {
		if _, ok := have[name]; !ok {
			t.Errorf("function %s is missing, want it in the reference", name)
		}
		delete(have, name)
	}
	if len(have) > 0 {
		t.Errorf("got functions %v, want only those of the language", have)
	}
}

// TestSlugVectors compares the examples of the reference with the vectors for other implementations.
func TestSlugVectors(t *testing.T) {
	b, err := os.ReadFile("../../model/functions/testdata/slug.json")
	must(t, err)
	var vectors []struct{ Text, Slug, Why string }
	must(t, json.Unmarshal(b, &vectors))
	want := map[string]string{"slug(null)": "null"}
	for _, v := range vectors {
		want[fmt.Sprintf("slug(%q)", v.Text)] = fmt.Sprintf("%q", v.Slug)
	}
	for _, f := range Collect().Functions {
		if f.Name != "slug" {
			continue
		}
		if len(f.Examples) < 10 {
			t.Errorf("got %d examples of slug, want at least 10", len(f.Examples))
		}
		for _, e := range f.Examples {
			if w, ok := want[e.Call]; !ok || w != e.Result {
				t.Errorf("%s: got %s, want %s as in the vectors", e.Call, e.Result, w)
			}
		}
	}
}

// TestMeta compares with what the loader accepts (internal/plan/lang refuses the others by name).
func TestMeta(t *testing.T) {
	want := map[string][]string{
		"fetch-ca":     {"when", "timeout", "on_failure"},
		"fetch-config": {"when", "for_each", "timeout", "on_failure"},
		"detect-hw":    {"when", "timeout", "on_failure"},
		"label":        {"when", "for_each"},
		"taint":        {"when", "for_each"},
		"write":        {"when"},
		"restart":      {"when", "timeout"},
	}
	for _, s := range Collect().Stages {
		var got []string
		for _, f := range s.Meta {
			got = append(got, f.Spec().Name)
		}
		if w, ok := want[s.Block.Type]; ok && !slices.Equal(got, w) {
			t.Errorf("arguments of all stages for %s: got %v, want %v", s.Block.Type, got, w)
		}
		if s.Takes("for_each") != slices.Contains(got, "for_each") {
			t.Errorf("%s: Takes(for_each): got %t, want it as in Meta %v", s.Block.Type, s.Takes("for_each"), got)
		}
	}
}

// TestDefaultsPassTheirChecks: a default that its own check refuses would fail only on a machine.
func TestDefaultsPassTheirChecks(t *testing.T) {
	checked := 0
	var walk func(where string, b schema.Block)
	walk = func(where string, b schema.Block) {
		for _, f := range b.Fields {
			s := f.Spec()
			if s.Doc == "" {
				t.Errorf("%s: got no doc of %s, want one", where, s.Name)
			}
			if s.Default.IsNull() {
				continue
			}
			checked++
			if err := s.CheckValue(s.Default); err != nil {
				t.Errorf("%s: default of %s: got %v, want no error", where, s.Name, err)
			}
		}
		for _, n := range b.Blocks {
			if n.Doc == "" {
				t.Errorf("%s: got no doc of block %s, want one", where, n.Type)
			}
			walk(where+" "+n.Type, n)
		}
	}
	for _, s := range Collect().Stages {
		walk(s.Block.Type, s.Block)
		if s.Doc == "" {
			t.Errorf("%s: got no doc, want one", s.Block.Type)
		}
	}
	if checked < 10 {
		t.Errorf("checked %d defaults, want at least 10", checked)
	}
}

// TestDifferencesFromTerraform checks each row of the table: our result by evaluation, and Terraform's where its
// function comes from a library.
func TestDifferencesFromTerraform(t *testing.T) {
	ours := functions.All()
	theirs := maps.Clone(ours)
	theirs["yamldecode"], theirs["jsondecode"] = ctyyaml.YAMLDecodeFunc, stdlib.JSONDecodeFunc

	result := func(text string, table map[string]function.Function) string {
		x, diags := hclsyntax.ParseExpression([]byte(text), "row", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%s: got %v, want an expression", text, diags)
		}
		v, diags := x.Value(&hcl.EvalContext{Functions: table})
		if diags.HasErrors() {
			return "error"
		}
		b, err := ctyjson.Marshal(v, v.Type())
		must(t, err)

		return string(b)
	}
	for _, d := range parseProse().Differences {
		if got := result(d.Call, ours); got != d.Here {
			t.Errorf("%s here: got %s, want %s", d.Call, got, d.Here)
		}
		if !strings.Contains(d.Call, "decode(") {
			continue // Terraform's own code, as measured with 1.11.4
		}
		if got := result(d.Call, theirs); got != d.Terraform {
			t.Errorf("%s in Terraform: got %s, want %s", d.Call, got, d.Terraform)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
