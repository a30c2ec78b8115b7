package lang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
)

func FuzzLoad(f *testing.F) {
	for _, text := range hostileNative(20) {
		f.Add(text, "")
	}
	f.Add(overrideBase, overrideNative)
	f.Add(
		"stage \"label\" \"x\" {\n  for_each = { a = 1 }\n}\n",
		"override {\n  stage \"label\" \"x\" { when = null }\n}\n",
	)
	f.Add(
		"variable \"a\" {\n  type = object({ b = list(string) })\n  default = { b = [1] }\n}\n",
		"detector \"x\" {\n  config {\n    a \"b\" { c = 1 }\n  }\n}\n",
	)
	f.Fuzz(func(t *testing.T, one, two string) {
		invariants(
			t,
			[]tape.SiteFile{
				{Name: "1.hcl", Text: one},
				{Name: "2.hcl", Text: two},
				{Name: "3.preletvars.hcl", Text: two},
				{Name: "4.preletdata.yaml", Text: two},
				{Name: "5.preletdata.json", Text: two},
				{Name: "6.preletdata.txt", Text: two},
			},
		)
	})
}

// invariants hold for any bytes: it ends, it gives the same twice, each diagnostic has a code of the site's text and
// points into a file, and so does each expression of a site that was accepted.
func invariants(t *testing.T, files []tape.SiteFile) {
	sources := map[string]string{}
	for _, f := range files {
		sources[f.Name] = f.Text
	}
	inside := func(what string, r hcl.Range) {
		src, ok := sources[r.Filename]
		if !ok || r.Start.Byte < 0 || r.Start.Byte > r.End.Byte || r.End.Byte > len(src) || r.Start.Line < 1 ||
			r.Start.Column < 1 {
			t.Fatalf("%s: got range %#v, want one inside of %d bytes", what, r, len(src))
		}
	}
	s, diags := Parse(files, options())
	for _, d := range diags {
		if d.Subject == nil || d.Summary == "" || origin.CodeOf(d).Exit() != 10 ||
			origin.CodeOf(d) == fault.Evaluation {
			t.Fatal(show(hcl.Diagnostics{d}))
		}
		if origin.CodeOf(d) != fault.Syntax { // HCL's own may point behind the end
			inside(d.Summary, *d.Subject)
		}
	}
	again, diags2 := Parse(files, options())
	if d := cmp.Diff(show(diags), show(diags2)); d != "" {
		t.Fatal(d)
	}
	if diags.HasErrors() {
		return
	}
	if d := cmp.Diff(summary(s), summary(again)); d != "" {
		t.Fatal(d)
	}
	for name, l := range s.Locals {
		inside("local "+name, l.Expr.Range())
	}
	for _, i := range s.Stages {
		for _, a := range i.Body.Attributes {
			inside(i.Addr()+" "+a.Name, a.Expr.Range())
		}
	}
}
