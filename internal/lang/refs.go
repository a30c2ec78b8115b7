package site

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/schema"
)

// resolveRefs checks the lists of static references in a body, and replaces each by the list of the names in it. They
// are resolved here and not evaluated: a stage that is named in such a list does not have to run before.
func (l *loader) resolveRefs(b schema.Block, body *hclsyntax.Body) {
	for _, f := range b.Fields {
		s := f.Spec()
		if a := body.Attributes[s.Name]; a != nil && s.Refs != "" && !null(a.Expr) {
			a.Expr = &hclsyntax.LiteralValueExpr{Val: l.resolveList(s, a.Expr), SrcRange: a.Expr.Range()}
		}
	}

	for _, x := range body.Blocks {
		if n, ok := b.Find(x.Type); ok {
			l.resolveRefs(n, x.Body)
		}
	}
}

func (l *loader) resolveList(s schema.Spec, e hclsyntax.Expression) cty.Value {
	tuple, ok := e.(*hclsyntax.TupleConsExpr)
	if !ok {
		l.refError(s, e.Range())
		return cty.ListValEmpty(cty.String)
	}

	var names []cty.Value
	for _, x := range tuple.Exprs {
		name, ok := refName(s, x)
		switch {
		case !ok:
			l.refError(s, x.Range())
		case l.defs[refAddress(s, name)] == nil:
			var known []string
			for _, d := range l.order {
				if d.typ != nil && d.typ.spec.Type == s.Refs {
					known = append(known, d.block.Labels[1])
				}
			}
			l.errorf(fault.Reference, x.Range(), fmt.Sprintf("There is no stage.%s.%s", s.Refs, name), "%s", schema.Suggest(name, known))
		default:
			names = append(names, cty.StringVal(name))
		}
	}

	if len(names) == 0 {
		return cty.ListValEmpty(cty.String)
	}

	return cty.ListVal(names)
}

func refAddress(s schema.Spec, name string) string {
	return strings.Join([]string{schema.StageBlock.Type, s.Refs, name}, ".")
}

// refName returns NAME of stage.TYPE.NAME, which JSON writes as a string.
func refName(s schema.Spec, e hclsyntax.Expression) (string, bool) {
	var words []string
	if literal(e) {
		if v, diags := e.Value(nil); !diags.HasErrors() && v.Type() == cty.String && !v.IsNull() {
			words = strings.Split(v.AsString(), ".")
		}
	} else if traversal, diags := hcl.AbsTraversalForExpr(e); !diags.HasErrors() {
		words = []string{traversal.RootName()}
		for _, step := range traversal[1:] {
			a, ok := step.(hcl.TraverseAttr)
			if !ok {
				return "", false
			}
			words = append(words, a.Name)
		}
	}

	if len(words) != 3 || words[0] != schema.StageBlock.Type || words[1] != s.Refs || words[2] == "" {
		return "", false
	}

	return words[2], true
}

func (l *loader) refError(s schema.Spec, at hcl.Range) {
	l.errorf(fault.Reference, at, fmt.Sprintf("%s names stages", s.Name),
		"It is a list of stages of type %s, as they are called: [stage.%s.NAME]; in JSON [\"stage.%s.NAME\"]. It is known when the site is loaded, so no other expression may stand there.",
		s.Refs, s.Refs, s.Refs)
}
