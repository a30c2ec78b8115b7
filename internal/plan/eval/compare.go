package eval

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// operand has the properties of an expression that are known before evaluation.
type operand struct {
	cty.Type        // any where it is not known
	path     string // of a fact, as in schema.SuggestFact; "" for something else
}

// comparer checks the comparisons of one expression.
type comparer struct {
	*Eval
	names  map[string]operand // of loops
	locals map[string]operand // those that were followed
	diags  hcl.Diagnostics
}

// checkComparisons warns of comparisons with a constant that have the same result on all machines: its type differs, or
// it is a word that a fact never has.
func (e *Eval) checkComparisons(x hclsyntax.Expression) hcl.Diagnostics {
	c := comparer{Eval: e, names: map[string]operand{}, locals: map[string]operand{}}
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			c.names[n.ValVar] = c.typeOf(n.CollExpr).follow(hcl.TraverseSplat{})
		case *hclsyntax.BinaryOpExpr:
			always := map[function.Function]string{
				stdlib.EqualFunc: "never", stdlib.NotEqualFunc: "always",
			}[n.Op.Impl]
			if always != "" {
				summary := "This comparison is " + always + " true"
				c.compare(c.typeOf(n.LHS), n.RHS, summary, n.SrcRange)
				c.compare(c.typeOf(n.RHS), n.LHS, summary, n.SrcRange)
			}
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "templatefile" && len(n.Args) == 2 {
				c.diags = append(c.diags, e.checkTemplateVars(n.Args[0], n.Args[1])...)
			}
			if n.Name != "where" || len(n.Args) != 2 {
				return nil
			}
			element := c.typeOf(n.Args[0]).follow(hcl.TraverseSplat{})
			attributes, _ := hcl.ExprMap(n.Args[1])
			for _, a := range attributes {
				if name := hcl.ExprAsKeyword(a.Key); name != "" {
					of := element.follow(hcl.TraverseAttr{Name: name})
					of.Type = cty.DynamicPseudoType // where() converts
					c.compare(of, a.Value.(hclsyntax.Expression), "No element has this", a.Value.Range())
				}
			}
		}

		return nil
	})

	return c.diags
}

// compare checks a comparison of an operand with a constant.
func (c *comparer) compare(o operand, x hclsyntax.Expression, summary string, at hcl.Range) {
	constant, diags := x.Value(nil)
	if diags.HasErrors() || constant.IsNull() || !constant.Type().IsPrimitiveType() {
		return
	}

	t := constant.Type()
	detail := ""
	switch {
	case o.IsPrimitiveType() && o.Type != t:
		detail = fmt.Sprintf("%s is compared with %s, and the two are never equal.",
			origin.Capitalize(schema.Article(o.Type)), schema.Article(t))
		if v, err := convert.Convert(constant, o.Type); err == nil {
			detail += " Write " + value.Literal(v) + "."
		}
	case t == cty.String:
		next := schema.SuggestFact(o.path, constant.AsString())
		if next == "" {
			return
		}
		detail = fmt.Sprintf("%s is never %q. %s", o.path, constant.AsString(), next)
	default:
		return
	}
	c.diags = append(c.diags, origin.Warning(fault.WrongType, at, summary, "%s", detail))
}

func (c *comparer) typeOf(x hclsyntax.Expression) operand {
	unknown := operand{Type: cty.DynamicPseudoType}
	switch x := x.(type) {
	case *hclsyntax.ParenthesesExpr:
		return c.typeOf(x.Expression)
	case *hclsyntax.IndexExpr:
		return c.typeOf(x.Collection).follow(hcl.TraverseSplat{})
	case *hclsyntax.RelativeTraversalExpr:
		return c.typeOf(x.Source).follow(x.Traversal...)
	case *hclsyntax.FunctionCallExpr:
		if x.Name == "where" && len(x.Args) > 0 {
			return c.typeOf(x.Args[0])
		}
		var types []cty.Type
		for _, a := range x.Args {
			types = append(types, c.typeOf(a).Type)
		}
		if t, err := c.Functions()[x.Name].ReturnType(types); err == nil {
			return operand{Type: t}
		}
	case *hclsyntax.ScopeTraversalExpr:
		return c.typeOfReference(x.Traversal)
	}

	return unknown
}

// typeOfReference returns the operand that a checked reference refers to.
func (c *comparer) typeOfReference(reference hcl.Traversal) operand {
	name, _, _ := findSecondName(reference)
	unknown := operand{Type: cty.DynamicPseudoType}
	o, isLoop := c.names[reference.RootName()]
	switch root := reference.RootName(); {
	case isLoop:
		return o.follow(reference[1:]...)
	case root == "local" && c.site.Locals[name] != nil:
		if _, isKnown := c.locals[name]; !isKnown {
			c.locals[name] = unknown // inside of itself
			inner := comparer{Eval: c.Eval, locals: c.locals}
			c.locals[name] = inner.typeOf(c.site.Locals[name].Expr)
		}
		return c.locals[name].follow(reference[2:]...)
	case root == "var" && c.site.Variables[name] != nil:
		return operand{Type: c.site.Variables[name].Type}.follow(reference[2:]...)
	case root == "stage" && len(reference) > 3 && c.stageOf(reference) != nil:
		o := operand{Type: c.typeOfStage(reference)}
		if c.stageOf(reference).Type == stages.DetectHW {
			o.path = "."
		}
		return o.follow(reference[3:]...)
	case root == "node":
		return operand{Type: c.nodeType()}.follow(reference[1:]...)
	}

	return unknown
}

// follow returns the operand at the end of steps. A splat is any element.
func (o operand) follow(steps ...hcl.Traverser) operand {
	for _, step := range steps {
		name, _, isName := findSecondName(hcl.Traversal{hcl.TraverseRoot{}, step})
		switch t := o.Type; {
		case isName && t.IsObjectType() && t.HasAttribute(name):
			o.Type = t.AttributeType(name)
			if o.path != "" {
				o.path = strings.TrimPrefix(o.path+"."+name, "..")
			}
		case t.IsListType(), t.IsMapType():
			o.Type = t.ElementType()
		default:
			return operand{Type: cty.DynamicPseudoType}
		}
	}

	return o
}
