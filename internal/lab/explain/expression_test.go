package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/plan/limit"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// evalText evaluates an expression, which must parse.
func evalText(t *testing.T, p *evaluate.Plan, text string) explain.Evaluation {
	t.Helper()
	x, diags := lang.ParseExpression("EXPR", []byte(text))
	if diags.HasErrors() {
		t.Fatalf("%s: got %v, want an expression", text, diags)
	}
	return explain.Evaluate(p, "EXPR", []byte(text), x)
}

// TestEvaluateSite evaluates what each example consists of: each variable, local and output has a value, the labels of
// the node are those of the plan, and no text of a value contains the credential.
func TestEvaluateSite(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name(), func(t *testing.T) {
			p := e.plan(t)
			for _, text := range append(namesOf(p, "."), "node.labels", "node.flags", "node.kubelet_config", "node.reserved") {
				v := evalText(t, p, text)
				if v.Diagnostics.HasErrors() || v.Value == "" || v.Type == "" {
					t.Errorf("%s: got %q of type %q, %v; want a value", text, v.Value, v.Type, v.Diagnostics)
				}
				whole, err := json.Marshal(v)
				if err != nil || strings.Contains(string(whole), canary) {
					t.Errorf("%s: got %s, %v; want no secret", text, whole, err)
				}
			}

			want := map[string]any{}
			for _, l := range p.Node.Labels {
				want[l.Key] = l.Value
			}
			if d := cmp.Diff(want, evalText(t, p, "node.labels").Whole); d != "" {
				t.Errorf("node.labels: want -, got +\n%s", d)
			}
		})
	}
}

// TestEvaluateWritten evaluates the text of a value again: it is an expression with the same value.
func TestEvaluateWritten(t *testing.T) {
	p := dgx.plan(t)
	for _, text := range []string{
		"stage.detect-hw.node.gpus", "stage.detect-hw.node.nics", "node.kubelet_config", "node.taints", "[]", "{}",
		`{ "a/b" = [1, 2.5, true, null], c = "x\ny" }`, "stage.detect-hw.node.os",
	} {
		once := evalText(t, p, text)
		again := evalText(t, p, once.Value)
		if d := cmp.Diff(once.Whole, again.Whole); d != "" {
			t.Errorf("%s, written as %s and evaluated: want -, got +\n%s", text, once.Value, d)
		}
	}
}

// TestExplainNames explains each variable, local and stage of each example, and compares the first ones with what is
// written in testdata.
func TestExplainNames(t *testing.T) {
	for _, e := range examples() {
		p := e.plan(t)
		for _, name := range namesOf(p, "/") {
			x := explained(t, p, name)
			if !x.Present || x.Value == "" || x.Type == "" || x.Range.Filename == "" {
				t.Errorf("%s %s: got %+v, want a value, a type and a place", e.name(), name, x)
			}
		}
	}

	p := dgx.plan(t)
	var b strings.Builder
	for _, word := range []string{"var/zone", "local/hw", "local/fabric", "stage/fetch-ca.cluster", "stage/label.gpu"} {
		fmt.Fprintf(&b, "$ prelet explain %s\n%s\n", word, text(t, explained(t, p, word)))
	}
	osfile.Golden(t, "testdata/golden/names.txt", b.String(), *update)
}

// FuzzEvaluate evaluates any text: no panic, no secret, and a value or an error.
func FuzzEvaluate(f *testing.F) {
	for _, text := range []string{
		"1 +", "node", "node.labels", "stage.detect-hw.node.gpus[0].model", `credential("bootstrap-token")`,
		`[credential("bootstrap-token"), {a = null}]`, `upper("${credential("bootstrap-token")}x")`, "local.hw.nics[*].link",
		`{for g in local.nvidia : g.address => g...}`, `file("/etc/x")`, "var.zone == null ? 1 : local.fabric",
		`try(stage.detect-hw.node.x, "y")`, "each.key", `format("%s", credential("bootstrap-token"))`,
		`sha256(credential("bootstrap-token"))`, `{ (credential("bootstrap-token")) = 1 }`, "<<EOT\na\nEOT\n",
		`toset([credential("bootstrap-token")])`, "stage.fetch-config.kubelet.data", "1e999", "[[[[[[1]]]]]]",
	} {
		f.Add(text)
	}

	var p *evaluate.Plan
	f.Fuzz(func(t *testing.T, text string) {
		if p == nil {
			p = dgx.plan(t)
		}
		x, diags := lang.ParseExpression("EXPR", []byte(text))
		if diags.HasErrors() {
			return
		}
		v, failed := limit.Run(t.Context(), limit.Default(), func() explain.Evaluation {
			return explain.Evaluate(p, "EXPR", []byte(text), x)
		})
		if failed != nil {
			if !strings.Contains(failed.Error(), "took more than") {
				t.Fatalf("%q: got %v, want a value or a limit", text, failed)
			}
			return
		}
		if !v.Diagnostics.HasErrors() && (v.Value == "" || v.Type == "") {
			t.Fatalf("%q: got the value %q of type %q, want both", text, v.Value, v.Type)
		}
		var out strings.Builder
		must(t, printer.EvaluationText(&out, v, printer.Style{Width: 80}))
		if err := printer.EncodeJSON(&out, printer.EvaluationDocument(v, "", nil)); err != nil {
			t.Fatalf("%q: got %v, want JSON", text, err)
		}
		if strings.Contains(out.String(), canary) && !strings.Contains(text, canary) {
			t.Fatalf("%q: got %s, want no secret", text, out.String())
		}
	})
}
