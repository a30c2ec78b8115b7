package explain

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/eval"
)

// explainName explains a variable, a local or a stage: its value, its type, where the value comes from, and which
// places of the site refer to it.
func (w *walker) explainName(i Item) (x Explanation, known bool) {
	var v cty.Value
	switch i.Kind {
	case Var:
		v, x.Range, known = w.explainVariable(i.Name)
	case Local:
		v, x.Range, known = w.explainLocal(i.Name)
	case Stage:
		v, x.Range, known = w.explainStage(i.Name)
	}
	if !known {
		return Explanation{}, false
	}

	names := strings.Split(i.Name, ".")
	x.Uses = w.e.Uses(append([]string{i.Kind}, names...)...)
	if i.Kind == Stage {
		x.Uses = append(x.Uses, w.listDefaultUses(i.Name)...)
	}
	if v == cty.NilVal {
		x.Summary = "The run ended before it."
		return x, true
	}

	x.Present = true
	x.Value = w.show(v)
	x.Whole = toGo(v)
	x.Type = typeexpr.TypeString(v.Type())

	return x, true
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

// explainVariable adds the step of a variable. The value is cty.NilVal if the run ended before it.
func (w *walker) explainVariable(name string) (v cty.Value, at hcl.Range, known bool) {
	declared := w.plan.Site.Variables[name]
	if declared == nil {
		return v, at, false
	}

	v, _ = w.e.Variable(name)
	w.addVariable(Step{Text: "var." + name, Value: w.show(v)}, name, 0)

	return v, declared.Range, true
}

// explainLocal adds the references in a local.
func (w *walker) explainLocal(name string) (v cty.Value, at hcl.Range, known bool) {
	l := w.plan.Site.Locals[name]
	if l == nil {
		return v, at, false
	}

	v, diags := w.e.Local(name)
	if err := firstError(diags); err != nil {
		w.add(0, Step{Text: "local." + name, Value: "(error)", Note: describe(err)})
	}
	w.addOperands(l.Expr, scope{}, 0)

	return v, l.Expr.Range(), true
}

// explainStage adds the condition of a stage, and the answer that its output comes from. The value is cty.NilVal if the
// run ended before it.
func (w *walker) explainStage(addr string) (v cty.Value, at hcl.Range, known bool) {
	i := w.plan.Site.Stage(addr)
	if i == nil {
		return v, at, false
	}

	if i.When != nil {
		w.addWhen(i.When, "stage."+addr, 0)
	}
	v, _ = w.e.Output(addr)
	s := Step{Text: "stage." + addr, Value: w.show(v), Range: i.Range}
	s.Note = w.describeFailure(i)
	w.addOutput(s, path{i.Type, i.Name}, 0)

	return v, i.Range, true
}
