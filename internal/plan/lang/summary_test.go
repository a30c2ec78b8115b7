package lang

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/value"
)

// summary writes a site in one form, whatever syntax and layers it came from: lines of PATH = EXPRESSION.
func summary(s *Site) []string {
	var out []string
	body := func(path string, b *hclsyntax.Body) {
		if b != nil {
			out = append(out, path)
			out = append(out, bodyLines(path, b)...)
		}
	}
	body("prelet", s.Prelet)
	body("cluster", s.Cluster)
	body("node", s.Node)
	for n, d := range s.Detectors {
		body("detector."+n, d.Body)
	}
	for n, x := range s.Locals {
		out = append(out, "local."+n+" = "+written(x.Expr))
	}
	for n, v := range s.Variables {
		out = append(out, fmt.Sprintf("var.%s: %#v sensitive=%v %q", n, v.Type, v.Sensitive, v.Description))
		if v.Default != nil {
			out = append(out, "var."+n+" default = "+written(v.Default))
		}
		for i, r := range v.Rules {
			out = append(out, fmt.Sprintf("var.%s rule %d: %s %s", n, i, written(r.Condition), written(r.Message)))
		}
	}
	for n, v := range s.Values {
		out = append(out, "value "+n+" = "+written(v))
	}
	sort.Strings(out)
	for _, i := range s.Stages {
		body("stage."+i.Addr(), i.Body)
		for n, e := range []hclsyntax.Expression{i.When, i.ForEach, i.Timeout} {
			if e != nil {
				out = append(out, "stage."+i.Addr()+" "+[]string{"when", "for_each", "timeout"}[n]+" = "+written(e))
			}
		}
		out = append(out, "stage."+i.Addr()+" on_failure "+i.OnFailure)
	}
	return out
}

func bodyLines(path string, b *hclsyntax.Body) (out []string) {
	for _, a := range listAttributes(b) {
		out = append(out, path+" "+a.Name+" = "+written(a.Expr))
	}
	sort.Strings(out)
	for _, x := range b.Blocks {
		p := path + "/" + strings.Join(append([]string{x.Type}, x.Labels...), ".")
		out = append(out, p)
		out = append(out, bodyLines(p, x.Body)...)
	}
	return out
}

// written prints an expression so that two that mean the same look the same.
func written(e hclsyntax.Expression) string {
	if e == nil {
		return ""
	}
	list := func(es []hclsyntax.Expression) string {
		var parts []string
		for _, x := range es {
			parts = append(parts, written(x))
		}
		return strings.Join(parts, ", ")
	}
	switch x := value.Unwrap(e).(type) {
	case *hclsyntax.LiteralValueExpr:
		if x.Val.Type() == cty.String {
			return fmt.Sprintf("%q", x.Val.AsString())
		}
		return fmt.Sprintf("%#v", x.Val)
	case *hclsyntax.UnaryOpExpr:
		if n, ok := x.Val.(*hclsyntax.LiteralValueExpr); ok && x.Op == hclsyntax.OpNegate {
			return fmt.Sprintf("%#v", n.Val.Negate()) // JSON has numbers with a sign
		}
		return fmt.Sprintf("%p%s", x.Op, written(x.Val))
	case *hclsyntax.TemplateExpr:
		return "`" + list(x.Parts) + "`"
	case *hclsyntax.TemplateWrapExpr:
		return written(x.Wrapped)
	case *hclsyntax.TupleConsExpr:
		return "[" + list(x.Exprs) + "]"
	case *hclsyntax.FunctionCallExpr:
		return x.Name + "(" + list(x.Args) + ")"
	case *hclsyntax.ObjectConsExpr:
		var parts []string
		for _, i := range x.Items {
			parts = append(parts, written(i.KeyExpr)+": "+written(i.ValueExpr))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *hclsyntax.ObjectConsKeyExpr:
		if k := hcl.ExprAsKeyword(x.Wrapped); k != "" && !x.ForceNonLiteral {
			return "`" + fmt.Sprintf("%q", k) + "`"
		}
		return written(x.Wrapped)
	case *hclsyntax.ScopeTraversalExpr:
		return traversal(x.Traversal)
	case *hclsyntax.BinaryOpExpr:
		return "(" + written(x.LHS) + fmt.Sprintf(" %v ", x.Op.Impl) + written(x.RHS) + ")"
	case *hclsyntax.ConditionalExpr:
		return written(x.Condition) + " ? " + written(x.TrueResult) + " : " + written(x.FalseResult)
	default:
		return fmt.Sprintf("%T", x)
	}
}

func traversal(t hcl.Traversal) string {
	s := t.RootName()
	for _, step := range t[1:] {
		switch x := step.(type) {
		case hcl.TraverseAttr:
			s += "." + x.Name
		case hcl.TraverseIndex:
			s += fmt.Sprintf("[%#v]", x.Key)
		}
	}
	return s
}
