package explain

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/plan/eval"
)

// explainName explains a variable, a local or a stage as a reference to it: its value, its type, where the value comes
// from, and which places of the site refer to it.
func (w *walker) explainName(i Item) (x Explanation, known bool) {
	x.Range, known = w.findDeclaration(i)
	if !known {
		return Explanation{}, false
	}

	address := i.Kind + "." + i.Name
	x.Uses = w.e.Uses(address)
	if stage := w.plan.Site.Stage(i.Name); i.Kind == Stage {
		x.Uses = append(x.Uses, w.listDefaultUses(i.Name)...)
		if stage.When != nil {
			w.addWhen(stage.When, address, 0)
		}
	}

	reference, _ := hclsyntax.ParseExpression([]byte(address), "", hcl.InitialPos) // it consists of declared names
	w.addReference(reference, eval.Scope{}, nil, 0)
	if len(w.e.NotReached(reference)) > 0 {
		x.Summary = "The run ended before it."
		return x, true
	}

	v, err := w.findName(reference)
	switch {
	case err == nil || !eval.IsNotEvaluated(err):
	case w.plan.Diagnostics.HasErrors():
		x.Summary = "The run ended before it was evaluated."
		return x, true
	default:
		x.Summary = "It was not evaluated: nothing that the run needed refers to it. `prelet eval " + address +
			"` evaluates it."
		return x, true
	}
	x.Present = true
	x.Value = w.show(v)
	x.Whole, _ = toGo(v)
	x.Type = typeexpr.TypeString(v.Type())

	return x, true
}

// findName returns the value of var.NAME, local.NAME or stage.TYPE.NAME.
func (w *walker) findName(reference hclsyntax.Expression) (cty.Value, *hcl.Diagnostic) {
	r, _ := w.parseReference(reference, eval.Scope{})
	names, ds := w.e.Context(reference, cty.NilVal)
	v, _ := r.path.findIn(names.Variables[r.root.Traversal.RootName()])

	return v, firstError(ds)
}

// findDeclaration returns where the site declares a variable, a local or a stage.
func (w *walker) findDeclaration(i Item) (at hcl.Range, known bool) {
	variable := w.plan.Site.Variables[i.Name]
	local := w.plan.Site.Locals[i.Name]
	stage := w.plan.Site.Stage(i.Name)
	switch {
	case i.Kind == Var && variable != nil:
		return variable.Range, true
	case i.Kind == Local && local != nil:
		return local.Expr.Range(), true
	case i.Kind == Stage && stage != nil:
		return stage.Range, true
	}

	return at, false
}

// listDefaultUses returns the stages that use an output of a stage by default: the site does not write the reference.
func (w *walker) listDefaultUses(addr string) (uses []eval.Use) {
	for _, e := range w.plan.Edges {
		user := w.plan.Site.Stage(e.From)
		if e.To == addr && user != nil {
			owner := "stage " + e.From + ", its default " + e.Attribute
			uses = append(uses, eval.Use{Owner: owner, Range: user.Range})
		}
	}

	return uses
}
