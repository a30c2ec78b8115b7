package eval

import (
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/schema"
)

// Outside is the scope of expressions that are not in the site, as of `eval` and in tests, after a run: they see
// everything that the site's own expressions see, the finished node, and names of their own.
type Outside struct {
	e     *Eval
	owner string
}

// Outside returns the scope of expressions of an owner, "a condition". node replaces `node`. names are further first
// names of references, and functions replace those of the site: file() of a test reads another folder.
func (e *Eval) Outside(
	owner string, node cty.Value, names map[string]cty.Value, functions map[string]function.Function,
) Outside {
	c := e.WithNode(node)
	c.names = names
	c.evaluating = map[string]bool{}
	c.funcs = maps.Clone(e.Functions())
	maps.Copy(c.funcs, functions)

	return Outside{e: c, owner: owner}
}

// Recorded returns o for readers of its trace, as Eval.Recorded does.
func (o Outside) Recorded() Outside { return Outside{e: o.e.Recorded(), owner: o.owner} }

// Names returns the names of an expression; with Recorded, those with which it was evaluated.
func (o Outside) Names(x hclsyntax.Expression) *hcl.EvalContext {
	names, _ := o.e.Context(x, cty.NilVal)

	return names
}

// Condition is Eval.Condition in this scope, of an expression whose references were checked.
func (o Outside) Condition(x hclsyntax.Expression) (isTrue, isKnown bool) {
	return o.e.Condition(x, cty.NilVal)
}

// Value checks the references of an expression, and evaluates it.
func (o Outside) Value(x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	diags := o.e.checkPlace(place{
		x:     x,
		phase: schema.Render,
		owner: o.owner,
	})
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v, more := o.e.Value(x, cty.NilVal)

	return v, o.e.Scope("").classify(append(diags, more...), x)
}
