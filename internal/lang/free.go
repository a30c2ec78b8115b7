package lang

import (
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/schema"
)

// convertFreeBlocks turns the blocks inside of free blocks (a detector's config) into attributes, so that a detector
// gets the same values for `firmware { minimum = "1" }` and for JSON's {"firmware": {"minimum": "1"}}. A block
// becomes an object, blocks with labels an object by label, several blocks of a type a list.
func convertFreeBlocks(body *hclsyntax.Body, b schema.Block) *hclsyntax.Body {
	out := *body
	out.Blocks = nil

	if b.Free {
		out.Attributes = blockAttributes(body.Blocks)
		maps.Copy(out.Attributes, body.Attributes)

		return &out
	}

	for _, x := range body.Blocks {
		nested, _ := b.Find(x.Type)
		converted := *x
		converted.Body = convertFreeBlocks(x.Body, nested)
		out.Blocks = append(out.Blocks, &converted)
	}

	return &out
}

func blockAttributes(blocks hclsyntax.Blocks) hclsyntax.Attributes {
	byType := map[string]hclsyntax.Blocks{}
	for _, x := range blocks {
		byType[x.Type] = append(byType[x.Type], x)
	}

	out := hclsyntax.Attributes{}
	for name, same := range byType {
		first := same[0]
		out[name] = &hclsyntax.Attribute{
			Name:        name,
			Expr:        blocksExpression(same),
			SrcRange:    first.Range(),
			NameRange:   first.TypeRange,
			EqualsRange: first.OpenBraceRange,
		}
	}

	return out
}

// blocksExpression returns the value of all blocks of one type.
func blocksExpression(same hclsyntax.Blocks) hclsyntax.Expression {
	first := same[0]
	byLabel := &hclsyntax.ObjectConsExpr{SrcRange: first.Range(), OpenRange: first.OpenBraceRange}
	list := &hclsyntax.TupleConsExpr{SrcRange: first.Range(), OpenRange: first.OpenBraceRange}

	for _, x := range same {
		e := blockObject(x)
		list.Exprs = append(list.Exprs, e)
		if len(x.Labels) > 0 {
			item := objectItem(x.Labels[0], x.LabelRanges[0], e)
			byLabel.Items = append(byLabel.Items, item)
		}
	}

	switch {
	case len(byLabel.Items) > 0:
		return byLabel
	case len(same) == 1:
		return list.Exprs[0]
	}

	return list
}

// blockObject returns a block as an object, inside of an object for each label after the first.
func blockObject(x *hclsyntax.Block) hclsyntax.Expression {
	object := &hclsyntax.ObjectConsExpr{SrcRange: x.Body.SrcRange, OpenRange: x.OpenBraceRange}
	for _, a := range listAttributes(convertFreeBlocks(x.Body, schema.Block{Free: true})) {
		object.Items = append(object.Items, objectItem(a.Name, a.NameRange, a.Expr))
	}

	for i := len(x.Labels) - 1; i > 0; i-- {
		item := objectItem(x.Labels[i], x.LabelRanges[i], object)
		object = &hclsyntax.ObjectConsExpr{
			SrcRange:  object.SrcRange,
			OpenRange: object.OpenRange,
			Items:     []hclsyntax.ObjectConsItem{item},
		}
	}

	return object
}

func objectItem(key string, at hcl.Range, e hclsyntax.Expression) hclsyntax.ObjectConsItem {
	text := &hclsyntax.LiteralValueExpr{Val: cty.StringVal(key), SrcRange: at}
	template := &hclsyntax.TemplateExpr{Parts: []hclsyntax.Expression{text}, SrcRange: at}

	return hclsyntax.ObjectConsItem{
		KeyExpr:   &hclsyntax.ObjectConsKeyExpr{Wrapped: template},
		ValueExpr: e,
	}
}
