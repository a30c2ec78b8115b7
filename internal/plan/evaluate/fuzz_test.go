package evaluate

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/sample"
)

// FuzzSite checks, plans and replays every input that parses: no step may panic, a plan without an answer is not
// complete, and the files of a container runtime are TOML. `make fuzz` and `make fuzz-seeds` take all cases as seeds.
func FuzzSite(f *testing.F) {
	chosen := sample.New(f)
	for _, dir := range []string{"check", "run"} {
		names, err := filepath.Glob("testdata/" + dir + "/*.txt")
		if err != nil || len(names) == 0 {
			f.Fatal(err)
		}
		for _, n := range names {
			a, err := txtar.ParseFile(n)
			must(f, err)
			if filepath.Base(n) != "big-locals.txt" && chosen.Has(sample.Quarter(12), n) {
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
		p := Run(context.Background(), s, RunInput{Source: usualSource()})
		nothing := tape.Recording{}
		q := Run(context.Background(), s, RunInput{Source: nothing.Source()})
		for _, d := range append(append(all, p.Diagnostics...), q.Diagnostics...) {
			if origin.CodeOf(d) == fault.Internal {
				t.Errorf("got %s, want no fault of prelet", d)
			}
		}
		for _, file := range p.Node.Files {
			if file.Purpose != "runtime" {
				continue
			}
			if err := toml.Unmarshal([]byte(file.Text.Template()), &map[string]any{}); err != nil {
				t.Errorf("%s: got %v, want valid TOML in\n%s", file.Path, err, file.Text.Template())
			}
		}
		if q.Complete && len(q.Tape.Entries()) > 0 && len(q.Node.Files) > 0 {
			t.Errorf("over nothing: got %s\nwant no complete plan", showPlan(q))
		}
	})
}
