package lang

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
)

// resolveRefs checks the lists of static references in a body, and replaces each by a list of names. They are not
// evaluated: a stage in such a list does not have to run before.
func (l *loader) resolveRefs(b schema.Block, body *hclsyntax.Body) {
	for _, f := range b.Fields {
		s := f.Spec()
		a := body.Attributes[s.Name]
		if a != nil && s.Refs != "" && !isNull(a.Expr) {
			a.Expr = &hclsyntax.LiteralValueExpr{
				Val:      l.resolveList(s, a.Expr),
				SrcRange: a.Expr.Range(),
			}
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
		return value.StringList(nil)
	}

	var names []string
	for _, x := range tuple.Exprs {
		name, ok := l.refName(s, x)
		switch {
		case !ok:
			l.refError(s, x.Range())
		case l.defs[refAddress(s, name)] == nil:
			l.Error(
				fault.Reference,
				x.Range(),
				fmt.Sprintf("Unknown stage.%s.%s", s.Refs, name),
				"%s",
				schema.Suggest(name, l.stageNames(s.Refs)),
			)
		default:
			names = append(names, name)
		}
	}

	return value.StringList(names)
}

func (l *loader) stageNames(typ string) (out []string) {
	for _, d := range l.order {
		if d.typ != nil && d.typ.spec.Type == typ {
			out = append(out, d.block.Labels[1])
		}
	}

	return out
}

func refAddress(s schema.Spec, name string) string {
	return strings.Join([]string{schema.StageBlock.Type, s.Refs, name}, ".")
}

// refName returns NAME of stage.TYPE.NAME.
func (l *loader) refName(s schema.Spec, e hclsyntax.Expression) (string, bool) {
	at := e.Range()
	text := string(at.SliceBytes(l.site.Sources[at.Filename]))

	return strings.CutPrefix(text, refAddress(s, ""))
}

func (l *loader) refError(s schema.Spec, at hcl.Range) {
	l.Error(fault.Reference, at, fmt.Sprintf("%s names stages", s.Name),
		"Write a list of stages of type %s: [stage.%s.NAME]. "+
			"It must be known when the site is loaded, so other expressions are not allowed.",
		s.Refs, s.Refs)
}
