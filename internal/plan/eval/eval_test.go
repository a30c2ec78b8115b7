package eval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// typed is a stage type with whatever a test needs of one; its code is never run.
type typed struct {
	spec stages.Spec
	out  cty.Type
}

func (f typed) Spec() stages.Spec                { return f.spec }
func (f typed) Outputs(stages.Declared) cty.Type { return f.out }

func text(name string, ref *schema.RefDefault) schema.Field {
	return schema.Attr[string]{Name: name, Doc: "A text.", Ref: ref}
}

// types are two kinds of stages whose defaults reach for each other, and one with a list of objects.
func types() []stages.Stage {
	out := cty.Object(
		map[string]cty.Type{"text": cty.String, "list": cty.List(cty.Object(map[string]cty.Type{"a": cty.String}))},
	)
	block := func(typ, other string) typed {
		var ref *schema.RefDefault
		if other != "" {
			ref = &schema.RefDefault{Stage: other, Output: "text"}
		}
		return typed{
			stages.Spec{
				Phase:   schema.Decide,
				ForEach: true,
				Block:   schema.Block{Type: typ, Fields: []schema.Field{text("x", ref), text("y", nil)}},
			},
			out,
		}
	}
	return []stages.Stage{block("left", "right"), block("right", "left"), block("free", "")}
}

func parse(t *testing.T, src string) *lang.Site {
	t.Helper()
	s, diags := lang.Parse([]tape.SiteFile{{Name: "a.hcl", Text: src}}, lang.LoadOptions{Stages: types()})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return s
}

func check(t *testing.T, src string) string {
	t.Helper()
	s := parse(t, src)
	e := eval.New(context.Background(), s, nil)
	for _, i := range s.Stages {
		e = e.With(
			map[string]cty.Value{
				i.Addr(): cty.ObjectVal(
					map[string]cty.Value{
						"text":  cty.UnknownVal(cty.String),
						"list":  cty.UnknownVal(cty.List(cty.Object(map[string]cty.Type{"a": cty.String}))),
						"state": cty.UnknownVal(cty.String),
					},
				),
			},
		)
	}
	_ = e.Variables() // what they are worth is for other tests; here only that they are known
	var out []string
	for _, d := range e.References() {
		out = append(
			out,
			fmt.Sprintf("%d:%d %s: %s", d.Subject.Start.Line, d.Subject.Start.Column, d.Summary, d.Detail),
		)
	}
	return strings.Join(out, "\n")
}

// TestCycleThroughDefaults has a cycle of references that come from defaults, not from the site's text.
func TestCycleThroughDefaults(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Name, Src, Want string }](t, `
- name: two defaults
  src: |
    stage "left" "l" {}
    stage "right" "r" {}
  want: stage.left.l → stage.right.r → stage.left.l
- name: a default, a local, a reference
  src: |
    locals {
      z = stage.left.l.text
    }
    stage "left" "l" {}
    stage "right" "r" {
      x = local.z
    }
  want: local.z → stage.left.l → stage.right.r → local.z
- name: oneself
  src: |
    stage "free" "f" {
      x = stage.free.f.text
    }
  want: stage.free.f → stage.free.f
- name: a local and itself
  src: |
    locals {
      z = local.z
    }
    stage "free" "f" {}
  want: local.z → local.z
- name: when
  src: |
    stage "free" "f" {
      when = stage.free.g.text == ""
    }
    stage "free" "g" {
      for_each = { a = stage.free.f.text }
    }
  want: stage.free.f → stage.free.g → stage.free.f
- name: a written one ends it
  src: |
    stage "left" "l" {}
    stage "right" "r" {
      x = "here"
    }
`) {
		t.Run(c.Name, func(t *testing.T) {
			got := check(t, c.Src)
			if c.Want == "" && got != "" || !strings.Contains(got, c.Want) {
				t.Errorf("got %q, want %q", got, c.Want)
			}
		})
	}
}

// TestNoSuchFunction looks for misspelt functions where evaluation would not find them, and asks often: HCL's own
// suggestion is another one each time.
func TestNoSuchFunction(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Name, X, Want string }](t, `
- {name: in plain text, x: slog("x"), want: '3:7 Unknown function "slog": Did you mean "log"?'}
- {name: in try, x: 'try(lowr("X"), "x")', want: '3:11 Unknown function "lowr": Did you mean "lower"?'}
- {name: in a branch, x: 'can(1) ? "a" : "${uper("b")}"', want: '3:25 Unknown function "uper": Did you mean "upper"?'}
- name: in a loop over nothing
  x: 'join("", [for a in [] : trimspce(a)])'
  want: '3:31 Unknown function "trimspce": Did you mean "trimspace"?'
- {name: like none, x: timestamp(), want: '3:7 Unknown function "timestamp": A plan has no clock and no randomness'}
- {name: there is one, x: 'try(lower("X"), "x")'}
`) {
		t.Run(c.Name, func(t *testing.T) {
			for range 20 {
				got := check(t, "stage \"free\" \"f\" {\n\n  x = "+c.X+"\n}\n")
				if c.Want == "" && got != "" || !strings.HasPrefix(got, c.Want) {
					t.Fatalf("got %q, want %q", got, c.Want)
				}
			}
		})
	}
}

// TestOrder runs dependencies first, then in the order of the site; a thousand stages in the worst one too.
func TestOrder(t *testing.T) {
	var b strings.Builder
	const n = 400
	for i := range n {
		if i == n-1 {
			fmt.Fprintf(&b, "stage \"free\" \"s%d\" {}\n", i)
			continue
		}
		fmt.Fprintf(&b, "stage \"free\" \"s%d\" {\n  x = stage.free.s%d.text\n}\n", i, i+1)
	}
	s := parse(t, b.String())
	order := eval.New(context.Background(), s, nil).Order()
	for i, x := range order {
		if want := fmt.Sprintf("s%d", n-1-i); x.Name != want {
			t.Fatalf("at %d stands %s, want %s", i, x.Name, want)
		}
	}
	s = parse(
		t,
		"stage \"free\" \"b\" {\n  x = stage.free.d.text\n}\nstage \"free\" \"a\" {}\nstage \"free\" \"d\" "+
			"{}\nstage \"free\" \"c\" {}\n",
	)
	var names []string
	for _, x := range eval.New(context.Background(), s, nil).Order() {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, " "); got != "a d b c" {
		t.Errorf("order: got %s, want a d b c", got)
	}
}

// TestBounds lists what locals and variables may not be.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, expr, want string }{
		{"a text", `join("", [for x in range(800) : "` + strings.Repeat("x", 3000) + `"])`, "2 MiB of text"},
		{"a list", `[for x in range(110) : range(1000)]`, "100000 elements"},
		{"a number", `pow(10, 300) * pow(10, 300) * pow(10, 300)`, "600 digits"},
		{"fine", `[for x in range(90) : range(1000)]`, ""},
		{"a secret is measured too", `"${credential("x")}${join("", [for x in range(800) : "` + strings.Repeat("x", 3000) + `"])}"`, "2 MiB of text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parse(t, "locals {\n  big = "+c.expr+"\n}\nstage \"free\" \"f\" {}\n")
			_, diags := eval.New(context.Background(), s, nil).Local("big")
			switch {
			case c.want == "" && diags.HasErrors():
				t.Error(diags)
			case c.want != "" && (!diags.HasErrors() || !strings.Contains(diags[0].Detail, c.want) || origin.CodeOf(diags[0]) != fault.Limit):
				t.Errorf("got %v, want %q", diags, c.want)
			}
		})
	}
}

// TestGivenIsBounded passes a variable a text that would overflow the parser's stack, from which Go cannot recover.
func TestGivenIsBounded(t *testing.T) {
	s := parse(t, "variable \"v\" {\n  type = list(string)\n}\nstage \"free\" \"f\" {}\n")
	for name, value := range map[string]string{"brackets": strings.Repeat("[", 1<<20), "signs": strings.Repeat("-", 250_000) + "1", "a function": `[file("/etc/shadow")]`, "a reference": `[var.v]`} {
		src := tape.SourceFunc(func(context.Context, tape.Question) tape.Answer {
			return tape.Variable.Answer(tape.VariableAns{Text: value, Source: "cmdline"})
		})
		if d := eval.New(context.Background(), s, src).
			Variables(); !d.HasErrors() || origin.CodeOf(d[0]) != fault.VariableInvalid ||
			len(d[0].Detail) > 300 {
			t.Errorf("%s: got %v, want one short error variable-invalid", name, d)
		}
	}
}

// TestCheckRule checks a secret by its rule, and is afraid of nothing in it.
func TestCheckRule(t *testing.T) {
	s := parse(
		t,
		"variable \"v\" {\n  sensitive = true\n  validation {\n    condition     = can(regex(\"^[a-z]+$\", "+
			"var.v))\n    error_message = \"no\"\n  }\n}\nstage \"free\" \"f\" {}\n",
	)
	for secret, want := range map[string]bool{"abc": true, "ABC": false, "": false, "\ue000cred:x\ue001": false} {
		if got := eval.CheckRule(context.Background(), s, "v", 0, secret); got != want {
			t.Errorf("%q: %t, want %t", secret, got, want)
		}
	}
	for _, c := range []struct {
		name string
		rule int
	}{{"w", 0}, {"v", 1}, {"v", -1}} {
		if eval.CheckRule(context.Background(), s, c.name, c.rule, "abc") {
			t.Errorf("%v, which does not exist: got true, want false", c)
		}
	}
}

// TestItemAndKey finds where one key of a map stands, through all that stands around it.
func TestItemAndKey(t *testing.T) {
	s := parse(
		t,
		"locals {\n  m = { inner = \"1\" }\n}\nvariable \"v\" {\n  default = true\n}\nstage \"free\" \"f\" {}\n",
	)
	e := eval.New(context.Background(), s, nil)
	if d := e.Variables(); d.HasErrors() {
		t.Fatal(d)
	}
	for _, c := range table.YAML[[]struct{ Src, Key, WantKey, WantValue string }](t, `
- {src: '{ a = "x" }', key: a, wantKey: a, wantValue: '"x"'}
- {src: '({ "a" = "x" })', key: a, wantKey: '"a"', wantValue: '"x"'}
- {src: 'merge({ a = "x" }, { a = "y" })', key: a, wantKey: a, wantValue: '"y"'}
- {src: 'merge({ a = "x" }, local.m)', key: a, wantKey: a, wantValue: '"x"'}
- {src: 'var.v ? { a = "x" } : { a = "y" }', key: a, wantKey: a, wantValue: '"x"'}
- {src: '{ "${"a"}b" = "x" }', key: ab, wantKey: '"${"a"}b"', wantValue: '"x"'}
- {src: 'merge({ a = "x" }, var.v ? { b = "y" } : {})', key: b, wantKey: b, wantValue: '"y"'}
- {src: 'merge({ a = "x" }, { for k in ["a"] : k => "x" })', key: a, wantValue: '{ for k in ["a"] : k => "x" }'}
- {src: '{ (var.v ? "a" : "b") = "x", c = "y" }', key: a, wantKey: '(var.v ? "a" : "b")', wantValue: '"x"'}
- {src: '[{ a = "x" }, "y"]', key: '1', wantValue: '"y"'}
- {src: '{ for k in ["a"] : k => "x" }', key: a}
`) {
		x, d := hclsyntax.ParseExpression([]byte(c.Src), "x", hcl.InitialPos)
		if d.HasErrors() {
			t.Fatal(d)
		}
		at := func(x hclsyntax.Expression) string {
			if x == nil {
				return ""
			}
			r := x.Range()
			return c.Src[r.Start.Byte:r.End.Byte]
		}
		sc := e.Scope("free.f")
		if v := sc.Item(x, c.Key); strings.Contains(c.Src, "?") && v != nil {
			t.Errorf("%s before it is evaluated: got value %s, want none", c.Src, at(v))
		}
		if _, d := e.Value(x, cty.NilVal); d.HasErrors() {
			t.Fatal(d)
		}
		if k, v := at(sc.Key(x, c.Key)), at(sc.Item(x, c.Key)); k != c.WantKey || v != c.WantValue {
			t.Errorf("%s: got key %s, value %s; want %s, %s", c.Src, k, v, c.WantKey, c.WantValue)
		}
	}
}

// TestSecretsThroughNames refuses a secret wherever it comes from: the check is left out for expressions whose names
// lead to no secret.
func TestSecretsThroughNames(t *testing.T) {
	s := parse(t, `variable "pw" { sensitive = true }
locals {
  secret  = { v = credential("c") }
  through = local.secret
}
stage "free" "direct" { x = credential("c") }
stage "free" "through" { x = stage.free.direct.text }
stage "right" "r" { x = local.through.v }
stage "left" "default" {}
`)
	e := eval.New(context.Background(), s, nil)
	if diags := e.Variables(); diags.HasErrors() {
		t.Fatal(diags)
	}
	secret := cty.ObjectVal(map[string]cty.Value{"text": secret.Credential("c")})
	for _, i := range s.Stages {
		e = e.With(map[string]cty.Value{i.Addr(): secret})
	}
	e = e.WithNode(secret)

	for _, from := range []string{
		`credential("c")`, "var.pw", "local.secret.v", "local.through.v", "stage.free.direct.text",
		"stage.free.through.text", "stage.left.default.text", `stage["free"].direct.text`, "node.text", "each.text",
	} {
		x, diags := hclsyntax.ParseExpression([]byte("upper("+from+")"), "x.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		v, diags := e.Value(x, secret)
		if !diags.HasErrors() || !functions.IsSecretRefused(diags[0]) {
			t.Errorf("upper(%s): got %#v, %v; want a refusal", from, v, diags)
		}
	}
}

// TestComparisonOfLocals compares a local that is made of others, each of which has the one before it twice.
func TestComparisonOfLocals(t *testing.T) {
	var b strings.Builder
	b.WriteString("locals {\n  a0 = 1\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  a%d = max(local.a%d, local.a%d)\n", i+1, i, i)
	}
	b.WriteString("}\nstage \"free\" \"f\" {\n  x = local.a60 == 3\n}\n")
	if got := check(t, b.String()); got != "" {
		t.Errorf("got %q, want none", got)
	}
}
