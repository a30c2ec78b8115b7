package eval

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/schema"
)

// Reached is what an expression refers to, through locals.
type Reached struct {
	Stages []string // addresses, sorted
	Node   bool     // node.*
	Facts  bool     // an output of detect-hw
	Asks   bool     // a file or a credential of the machine
	Vars   bool     // a variable, which another machine may give another value
	Phase  schema.Phase
	Locals []string // in the order in which they were met
}

// Reach follows an expression's references through locals. It evaluates nothing.
func (e *Eval) Reach(xs ...hclsyntax.Expression) Reached {
	r := Reached{Phase: schema.Static}
	seen := map[string]bool{}
	stages := map[string]bool{}
	var walk func(x hclsyntax.Expression)
	walk = func(x hclsyntax.Expression) {
		if x == nil {
			return
		}
		r.Asks = r.Asks || asksMachine(x)
		for _, tr := range x.Variables() {
			name, _, ok := second(tr)
			switch tr.RootName() {
			case "local":
				if l := e.site.Locals[name]; ok && l != nil && !seen[name] {
					seen[name] = true
					r.Locals = append(r.Locals, name)
					walk(l.Expr)
				}
			case "var":
				r.Vars = true
			case "node":
				r.Node, r.Phase = true, max(r.Phase, schema.Render)
			case "stage":
				if len(tr) < 3 || !ok {
					continue
				}
				n, _, ok := second(tr[1:])
				if !ok {
					continue
				}
				if i := e.site.Stage(name + "." + n); i != nil {
					stages[i.Addr()] = true
					r.Facts = r.Facts || name == "detect-hw"
					r.Phase = max(r.Phase, i.Spec.Phase)
				}
			}
		}
	}
	for _, x := range xs {
		walk(x)
	}
	r.Stages = keys(stages)

	return r
}

// asksMachine reports whether an expression calls a function that reads a file or a credential of the machine.
func asksMachine(x hclsyntax.Expression) (asks bool) {
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		if c, ok := n.(*hclsyntax.FunctionCallExpr); ok {
			asks = asks || c.Name == "file" || c.Name == "fileexists" || c.Name == "credential"
		}
		return nil
	})

	return asks
}

// BodyExpressions lists every expression of a body and its blocks, in the order of the file.
func BodyExpressions(b *hclsyntax.Body) []hclsyntax.Expression {
	if b == nil {
		return nil
	}
	var out []hclsyntax.Expression
	for _, a := range b.Attributes {
		out = append(out, a.Expr)
	}
	for _, x := range b.Blocks {
		out = append(out, BodyExpressions(x.Body)...)
	}
	slices.SortStableFunc(out, func(a, b hclsyntax.Expression) int {
		ra, rb := a.Range(), b.Range()
		return cmp.Or(strings.Compare(ra.Filename, rb.Filename), ra.Start.Byte-rb.Start.Byte)
	})
	return out
}
