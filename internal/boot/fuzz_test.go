package boot

import (
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
)

// FuzzSite checks, plans and replays every input that parses: no step may panic, and a plan without an answer is not
// complete.
func FuzzSite(f *testing.F) {
	for _, dir := range []string{"check", "run"} {
		names, err := filepath.Glob("testdata/" + dir + "/*.txt")
		if err != nil || len(names) == 0 {
			f.Fatal(err)
		}
		for _, n := range names {
			a, err := txtar.ParseFile(n)
			if err != nil {
				f.Fatal(err)
			}
			if filepath.Base(n) != "big-locals.txt" {
				f.Add(readPart(a, "site.hcl"))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := &txtar.Archive{Files: []txtar.File{{Name: "site.hcl", Data: []byte(text)}}}
		s, diags := parseCase(a)
		if diags.HasErrors() {
			return
		}
		all := Check(s, SampleMachines(), CheckOptions{})
		p := Run(context.Background(), s, Options{Source: usualSource()})
		nothing := world.Recording{}
		q := Run(context.Background(), s, Options{Source: nothing.Source()})
		for _, d := range append(append(all, p.Diagnostics...), q.Diagnostics...) {
			if origin.CodeOf(d) == fault.Internal {
				t.Errorf("got %s, want no fault of prelet", d)
			}
		}
		if q.Complete && len(q.Tape.Entries()) > 0 && len(q.Node.Files) > 0 {
			t.Errorf("over nothing: got %s\nwant no complete plan", showPlan(q))
		}
	})
}
