package eval

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// Outside is the scope of expressions that are not in the site, such as the conditions of tests, after a run: they see
// everything that the site's own expressions see, the finished node, and names of their own.
type Outside struct {
	e         *Eval
	owner     string
	functions map[string]function.Function
}

// Outside returns the scope of expressions of an owner, "a condition". node replaces `node`. names are further first
// names of references, and functions replace those of the site: file() of a test reads another folder.
func (e *Eval) Outside(
	owner string, node cty.Value, names map[string]cty.Value, functions map[string]function.Function,
) Outside {
	c := e.WithNode(node)
	c.names = names
	c.evaluating = map[string]bool{}

	return Outside{e: c, owner: owner, functions: functions}
}

// Value checks the references of an expression, and evaluates it. Unknown parts of the result are marked with the
// questions that are not in the recording.
func (o Outside) Value(x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	e := o.e
	diags := e.checkPlace(place{
		x:     x,
		phase: schema.Render,
		owner: o.owner,
	})
	tried := listTried(x)
	diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		return d.Subject != nil && slices.ContainsFunc(tried, d.Subject.Overlaps)
	})
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	before := len(*e.unread)
	ctx, diags := e.Context(x, cty.NilVal)
	if diags.HasErrors() {
		return cty.DynamicVal, addCodes(diags)
	}

	ctx.Functions = maps.Clone(ctx.Functions)
	maps.Copy(ctx.Functions, o.functions)
	v, diags := e.evaluateIn(x, ctx)
	v = value.KeepQuestions(v, x, ctx)
	if !diags.HasErrors() && !v.IsWhollyKnown() {
		v = value.Because(v, sortedUnique((*e.unread)[before:]))
	}

	return v, addCodes(diags)
}

// listTried returns the references to fields of the kubelet's configuration in try() and can(): whether a field exists
// depends on the plan, so a field that is missing there is not a mistake.
func listTried(x hclsyntax.Expression) (out []hcl.Range) {
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		call, isCall := n.(*hclsyntax.FunctionCallExpr)
		if !isCall || call.Name != "try" && call.Name != "can" {
			return nil
		}
		for _, reference := range call.Variables() {
			if isReferenceTo(reference, []string{"node", "kubelet_config"}) {
				out = append(out, reference.SourceRange())
			}
		}

		return nil
	})

	return out
}
