package explain_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// TestNoEvaluation parses the package: only Evaluate, whose expression the user has typed, calls a scope's Value. All
// others read the record, which the walker's Eval is.
func TestNoEvaluation(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	fset := token.NewFileSet()
	calls := map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range f.Decls {
			function, isFunction := d.(*ast.FuncDecl)
			if !isFunction {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, isCall := n.(*ast.CallExpr)
				if !isCall {
					return true
				}
				method, isMethod := call.Fun.(*ast.SelectorExpr)
				if isMethod && (method.Sel.Name == "Value" || method.Sel.Name == "Recorded") {
					calls[function.Name.Name+" "+method.Sel.Name]++
				}
				return true
			})
		}
	}
	want := map[string]int{"Evaluate Value": 1, "lookUp Value": 1, "newWalker Recorded": 1}
	if d := cmp.Diff(want, calls); d != "" {
		t.Errorf("calls that could evaluate: want -, got +\n%s", d)
	}
}

// TestRecordOnly explains a plan without a record: there are no values, since nothing is evaluated for them.
func TestRecordOnly(t *testing.T) {
	with := sitePlan(t, `variable "a" { default = "x" }
locals { up = upper(var.a) }
stage "label" "x" { labels = { a = "${local.up}-${file("/etc/x")}" } }`)
	x := explained(t, with, "label/a")
	checkOrder(t, x, []string{`local.up = "X"`, `file("/etc/x") = "text of the file`})

	without := evaluate.Run(context.Background(), with.Site, evaluate.RunInput{
		Source: (&tape.Recording{Entries: with.Tape.Entries()}).Source(),
	})
	x = explained(t, without, "label/a")
	checkOrder(t, x, []string{"local.up = (not evaluated)", `file("/etc/x") = (not evaluated)`})
}

// TestRecordChangesNothing plans each example with and without a record.
func TestRecordChangesNothing(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name(), func(t *testing.T) {
			with := e.plan(t)
			without := evaluate.Run(context.Background(), with.Site, evaluate.RunInput{
				Source: (&tape.Recording{Entries: with.Tape.Entries()}).Source(),
			})
			if with.Hash == "" || with.Hash != without.Hash {
				t.Errorf("got the plan %q with a record, want %q as without one", with.Hash, without.Hash)
			}
			if d := cmp.Diff(without.Diagnostics.Error(), with.Diagnostics.Error()); d != "" {
				t.Errorf("messages with a record: want -, got +\n%s", d)
			}
		})
	}
}

// TestLoop explains a condition in a loop, which had a value for each element.
func TestLoop(t *testing.T) {
	p := sitePlan(t, `locals {
  all  = join("", [for n in ["a", "b"] : n == "a" ? "1" : "2"])
  same = join("", [for n in ["a", "b"] : n == "c" ? "1" : "2"])
}
stage "label" "x" { labels = { a = local.all, b = local.same } }
stage "label" "y" {
  for_each = toset(["a", "b"])
  labels   = { "of-${each.key}" = each.key == "a" ? "1" : "2" }
}`)
	checkOrder(t, explained(t, p, "label/a"), []string{`n == "a" = (several values)`})
	checkOrder(t, explained(t, p, "label/b"), []string{`n == "c" is false`, `so it is "2", not "1"`})
	checkOrder(t, explained(t, p, "label/of-a"), []string{`each.key == "a" is true`, `so it is "1", not "2"`})
	checkOrder(t, explained(t, p, "label/of-b"), []string{`each.key == "a" is false`, `so it is "2", not "1"`})
}

// TestNotReached explains a local that the run did not need.
func TestNotReached(t *testing.T) {
	p := sitePlan(t, `locals { idle = upper("x") }`)
	x := explained(t, p, "local/idle")
	if x.Present || !strings.Contains(x.Summary, "was not evaluated") {
		t.Errorf("got %+v; want a local that was not evaluated", x)
	}
	if v := evalText(t, p, `"${local.idle}y"`); v.Value != `"Xy"` || len(v.Chain) == 0 || v.Chain[0].Value != `"X"` {
		t.Errorf("eval: got %+v; want the value, and that of the local in it", v)
	}
	if x := explained(t, p, "local/idle"); x.Present {
		t.Errorf("after eval: got %+v; want the record of the run unchanged", x)
	}
}
