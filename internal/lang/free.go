package site

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/schema"
)

// freeBlocks turns the blocks inside of free blocks (a detector's config) into attributes, so that
// `firmware { minimum = "1" }` and JSON's {"firmware": {"minimum": "1"}} are one thing for whoever reads the values:
// a block is an object, one with labels an object by label, several of a type are a list.
func freeBlocks(body *hclsyntax.Body, b schema.Block) *hclsyntax.Body {
	out := *body
	out.Blocks = nil
	if b.Free {
		out.Attributes = hclsyntax.Attributes{}
		for n, a := range body.Attributes {
			out.Attributes[n] = a
		}
		for n, a := range blockAttributes(body.Blocks) {
			if out.Attributes[n] == nil {
				out.Attributes[n] = a
			}
		}
		return &out
	}
	for _, x := range body.Blocks {
		c := *x
		nested, _ := b.Find(x.Type)
		c.Body = freeBlocks(x.Body, nested)
		out.Blocks = append(out.Blocks, &c)
	}
	return &out
}

func blockAttributes(blocks hclsyntax.Blocks) hclsyntax.Attributes {
	out := hclsyntax.Attributes{}
	for _, x := range blocks {
		if out[x.Type] != nil {
			continue
		}
		var same []hclsyntax.Expression
		labelled := &hclsyntax.ObjectConsExpr{SrcRange: x.Range(), OpenRange: x.OpenBraceRange}
		for _, y := range blocks {
			if y.Type != x.Type {
				continue
			}
			e := blockObject(y)
			if len(y.Labels) > 0 {
				labelled.Items = append(labelled.Items, hclsyntax.ObjectConsItem{KeyExpr: keyExpr(y.Labels[0], y.LabelRanges[0]), ValueExpr: e})
			}
			same = append(same, e)
		}
		var e hclsyntax.Expression
		switch {
		case len(labelled.Items) > 0:
			e = labelled
		case len(same) == 1:
			e = same[0]
		default:
			e = &hclsyntax.TupleConsExpr{Exprs: same, SrcRange: x.Range(), OpenRange: x.OpenBraceRange}
		}
		out[x.Type] = &hclsyntax.Attribute{Name: x.Type, Expr: e, SrcRange: x.Range(), NameRange: x.TypeRange, EqualsRange: x.OpenBraceRange}
	}
	return out
}

func blockObject(x *hclsyntax.Block) hclsyntax.Expression {
	o := &hclsyntax.ObjectConsExpr{SrcRange: x.Body.SrcRange, OpenRange: x.OpenBraceRange}
	body := freeBlocks(x.Body, schema.Block{Free: true})
	for _, a := range attributes(body) {
		o.Items = append(o.Items, hclsyntax.ObjectConsItem{KeyExpr: keyExpr(a.Name, a.NameRange), ValueExpr: a.Expr})
	}
	for i := len(x.Labels) - 1; i > 0; i-- {
		o = &hclsyntax.ObjectConsExpr{SrcRange: o.SrcRange, OpenRange: o.OpenRange,
			Items: []hclsyntax.ObjectConsItem{{KeyExpr: keyExpr(x.Labels[i], x.LabelRanges[i]), ValueExpr: o}}}
	}
	return o
}

func keyExpr(name string, at hcl.Range) hclsyntax.Expression {
	return &hclsyntax.ObjectConsKeyExpr{Wrapped: &hclsyntax.TemplateExpr{SrcRange: at,
		Parts: []hclsyntax.Expression{&hclsyntax.LiteralValueExpr{Val: cty.StringVal(name), SrcRange: at}}}}
}
