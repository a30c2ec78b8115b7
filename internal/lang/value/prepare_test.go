package value

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

func TestPrepareTwiceIsOnce(t *testing.T) {
	src, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range strings.Split(strings.TrimSpace(string(src)), "\n") {
		once := Prepare(parse(t, s))
		before := shape(once)
		twice := Prepare(once)
		if after := shape(twice); after != before {
			t.Errorf("%s: prepared twice is\n%s, once\n%s", s, after, before)
		}
		if a, b := fmt.Sprint(once.Range()), fmt.Sprint(parse(t, s).Range()); a != b {
			t.Errorf("%s has range %s once prepared, %s before", s, a, b)
		}
		if a, b := refs(once), refs(parse(t, s)); a != b {
			t.Errorf("%s refers to %s once prepared, to %s before", s, a, b)
		}
	}
}

// shape is the tree of node types.
func shape(n hclsyntax.Node) string {
	var b strings.Builder
	_ = hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		fmt.Fprintf(&b, "%T ", n)
		return nil
	})
	return b.String()
}

func refs(e hclsyntax.Expression) string {
	var b strings.Builder
	for _, tr := range e.Variables() {
		fmt.Fprintf(&b, "%s@%s ", tr.RootName(), tr.SourceRange())
	}
	return b.String()
}

// TestPreparedIsStillReadable: what looks at the shape of an expression without evaluating it still can.
func TestPreparedIsStillReadable(t *testing.T) {
	if m, diags := hcl.ExprMap(Prepare(parse(t, `{ a = 1, "b" = 2 }`))); diags.HasErrors() || len(m) != 2 || hcl.ExprAsKeyword(m[0].Key) != "a" {
		t.Errorf("an object is %v, %v", m, diags)
	}
	if c, diags := hcl.ExprCall(Prepare(parse(t, `f(1, l...)`))); diags.HasErrors() || c.Name != "f" {
		t.Errorf("a call is %v, %v", c, diags)
	}
	if l, diags := hcl.ExprList(Prepare(parse(t, `[1, 2]`))); diags.HasErrors() || len(l) != 2 {
		t.Errorf("a list is %v, %v", l, diags)
	}
	for src, want := range map[string]string{`((a ? b : c))`: "*hclsyntax.ConditionalExpr", `[for x in y : x]`: "*hclsyntax.ForExpr", `{}`: "*hclsyntax.ObjectConsExpr", `a[b]`: "*hclsyntax.IndexExpr", `-a`: "*hclsyntax.UnaryOpExpr"} {
		if got := fmt.Sprintf("%T", Unwrap(Prepare(parse(t, src)))); got != want {
			t.Errorf("%s is a %s, want %s", src, got, want)
		}
	}
	lit := parse(t, `1`)
	if Prepare(lit) != lit {
		t.Error("a literal does not stay as it is")
	}
	if Prepare(nil) != nil {
		t.Error("nothing does not stay nothing")
	}
}

func TestTypedFor(t *testing.T) {
	obj := cty.Object(map[string]cty.Type{"name": cty.String, "mem": cty.Number, "ports": cty.List(cty.Object(map[string]cty.Type{"speed": cty.Number}))})
	vars := map[string]cty.Value{
		"l": cty.UnknownVal(cty.List(obj)), "m": cty.UnknownVal(cty.Map(obj)), "s": cty.UnknownVal(cty.Set(cty.String)),
		"k": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"a": cty.UnknownVal(cty.Bool), "n": cty.StringVal("x")})}),
		"d": cty.DynamicVal, "u": UnreadVal(cty.List(obj), "q"), "sec": Credential("c"), "no": cty.UnknownVal(cty.Bool),
	}
	for src, want := range map[string]cty.Type{
		`[for x in l : x]`:                                  cty.List(obj),
		`[for x in l : x.name if x.mem > 1]`:                cty.List(cty.String),
		`[for i, x in l : i]`:                               cty.List(cty.Number),
		`[for k, x in m : k]`:                               cty.List(cty.String),
		`[for k, x in s : k]`:                               cty.List(cty.String),
		`{ for x in l : x.name => x.mem }`:                  cty.Map(cty.Number),
		`{ for x in l : x.name => x.mem... }`:               cty.Map(cty.List(cty.Number)),
		`[for x in l : [for p in x.ports : p.speed]]`:       cty.List(cty.List(cty.Number)),
		`[for x in [for y in l : y] : x.name]`:              cty.List(cty.String),
		`[for x in l : {n = x.name}]`:                       cty.List(cty.Object(map[string]cty.Type{"n": cty.String})),
		`[for x in k : x.n if x.a]`:                         cty.List(cty.String), // the collection is known, what to take is not
		`[for x in d : x.anything]`:                         cty.DynamicPseudoType,
		`[for x in l : d]`:                                  cty.DynamicPseudoType,
		`"%{ for x in l }${x.name} %{ endfor }"`:            cty.String,
		`"a%{ for k, x in m ~}${k}%{ endfor }"`:             cty.String,
		`[for x in l : x][0].name`:                          cty.String,
		`length([for x in l : x if x.name == "a"])`:         cty.Number,
		`no ? [for x in l : x.name] : [for x in m : "a"]`:   cty.List(cty.String),
		`join(",", [for x in l : x.name])`:                  cty.String,
		`[for x in [for y in l : y.ports] : x[0].speed][0]`: cty.Number,
	} {
		if v := must(t, src, vars); v.IsKnown() || !v.Type().Equals(want) {
			t.Errorf("%s is %#v, want an unknown %s", src, v, want.FriendlyNameForConstraint())
		}
	}
	for src, want := range map[string]string{
		`[for x in u : x.name]`:                           "[] [q]",
		`[for x in l : sec]`:                              "[c] []",
		`[for x in l : {a = sec}]`:                        "[c] []",
		`"%{ for x in u }a%{ endfor }"`:                   "[] [q]",
		`"%{ for x in l }${sec}%{ endfor }"`:              "[c] []",
		`{ for x in u : x.name => sec }`:                  "[c] [q]",
		`{ (u[0].name) = sec }`:                           "[c] [q]",
		`no ? {a = sec} : {a = ""}`:                       "[c] []",
		`-u[0].mem`:                                       "[] [q]",
		`[1, 2][u[0].mem]`:                                "[] [q]",
		`concat([sec], u...)`:                             "[c] [q]",
		`[{a = sec, b = no}][0].b`:                        "[] []", // the neighbour's mark is not its own
		`{a = sec, b = no}["b"]`:                          "[] []",
		`"%{ for x in [sec, l[0].name] }${x}%{ endfor }"`: "[c] []",
	} {
		_, secrets, unread := Plain(must(t, src, vars))
		if got := fmt.Sprint(secrets, unread); got != want {
			t.Errorf("%s has marks %s, want %s", src, got, want)
		}
	}
	for src, want := range map[string]string{
		`[for x in l : x.nmae]`:                      "Unsupported attribute",
		`[for x in l : x if x.nmae == 1]`:            "Unsupported attribute",
		`{ for x in l : x.nmae => 1 }`:               "Unsupported attribute",
		`[for x in l : [for p in x.ports : p.sped]]`: "Unsupported attribute",
		`"%{ for x in l }${x.nmae}%{ endfor }"`:      "Unsupported attribute",
		`[for x in l : x.name][0].name`:              "Unsupported attribute",
		`[for x in [for y in l : y.ports] : x.sped]`: "Unsupported attribute",
		`[for x in l : x if sec == x.name]`:          "Depends on the content of a secret",
		`[for x in 1 : x]`:                           "Iteration over non-iterable value",
		`"%{ for x in null }a%{ endfor }"`:           "Iteration over null value",
	} {
		v, diags := evaluate(t, src, vars)
		n := 0
		for _, d := range diags {
			if d.Summary == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is %#v, %v; want %q once", src, v, diags, want)
		}
	}
}

func TestForDepth(t *testing.T) {
	for src, want := range map[string]int{
		`1`: 0, `a[*].b`: 0, `[for x in l : x]`: 1, `[for x in [for y in l : y] : x]`: 1,
		`[for x in l : [for y in x : y]]`: 2, `{ for x in l : x => [for y in l : y if length([for z in l : z]) > 1] }`: 3,
		`"%{ for x in l }%{ for y in l }a%{ endfor }%{ endfor }"`: 2, `f([for x in l : (true ? [for y in l : -y] : [])])`: 2,
		`{ "k${[for x in l : x][0]}" = [for x in l : x], (b[[for x in l : x][0]]) = 1 }`: 1, `[for x in l : x if [for y in l : y] == [] ]`: 2,
	} {
		e := parse(t, src)
		if got := ForDepth(e); got != want {
			t.Errorf("%s has depth %d, want %d", src, got, want)
		}
		if got := ForDepth(Prepare(e)); got != want {
			t.Errorf("%s has depth %d once prepared, want %d", src, got, want)
		}
	}
}

// BenchmarkPrepared is what the wrappers of Prepare cost, beside the same expression without them.
func BenchmarkPrepared(b *testing.B) {
	const src = `{ for g in gpus : "gpu/${slug(g.vendor)}" => g.mem > 1 ? "${g.mem}" : try(g.vendor, "none")... if g.vendor != null }`
	ctx := &hcl.EvalContext{Functions: Functions(), Variables: map[string]cty.Value{"gpus": cty.ListVal([]cty.Value{gpu("a", 80), gpu("b", 40), gpu("a", 1)})}}
	for name, e := range map[string]hclsyntax.Expression{"plain": parse(b, src), "prepared": Prepare(parse(b, src))} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, diags := e.Value(ctx); diags.HasErrors() {
					b.Fatal(diags)
				}
			}
		})
	}
}
