package eval

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/plan/lang"
)

// WithExpression returns a fork of e for an expression that is not a part of the site: its text is among the sources,
// values that a failed run did not reach are unknown, and its evaluation is recorded.
func (e *Eval) WithExpression(name string, text []byte) *Eval {
	c := e.Fork().WithTrace()
	site := *e.site
	site.Sources = maps.Clone(e.site.Sources)
	site.Sources[name] = text
	c.site = &site

	for name, v := range site.Variables {
		if _, ok := c.vars[name]; !ok {
			c.vars[name] = cty.UnknownVal(v.Type)
		}
	}
	missing := map[string]cty.Value{}
	for _, i := range site.Stages {
		if _, ok := c.Output(i.Addr()); !ok {
			missing[i.Addr()] = cty.DynamicVal
		}
	}
	if len(missing) == 0 {
		return c
	}
	c.locals = map[string]localValue{} // some may have failed for lack of these outputs

	return c.With(missing)
}

// Variable returns the value of a variable, if the run has read the variables.
func (e *Eval) Variable(name string) (v cty.Value, ok bool) {
	v, ok = e.vars[name]

	return v, ok
}

// NotReached returns, in words, the references of an expression that a failed run did not reach.
func (e *Eval) NotReached(x hclsyntax.Expression) (out []string) {
	reached := e.Reach(x)
	for _, addr := range reached.Stages {
		if _, ok := e.Output(addr); !ok {
			out = append(out, "stage."+addr)
		}
	}
	if reached.Node && !e.node().IsKnown() {
		out = append(out, "node")
	}

	return out
}

// Use is a place of the site that refers to something.
type Use struct {
	Owner string // "the cluster block", "stage label.gpu", "local.zone"
	Range hcl.Range
}

// Uses returns the places of the site that refer to var.NAME, local.NAME or stage.TYPE.NAME, in the order of files.
func (e *Eval) Uses(name string) (uses []Use) {
	for _, p := range e.places() {
		for _, reference := range p.x.Variables() {
			use := Use{p.owner, reference.SourceRange()}
			if nameOf(reference) == name && !slices.Contains(uses, use) {
				uses = append(uses, use)
			}
		}
	}
	slices.SortStableFunc(uses, func(a, b Use) int {
		return lang.CompareRanges(a.Range, b.Range)
	})

	return uses
}
