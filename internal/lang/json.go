package lang

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// parseJSON turns a JSON file into a native syntax tree, so that all later steps know one kind of tree. JSON does not
// distinguish arguments and blocks: the schema does.
//
// HCL's own JSON reader is not used: its syntax tree is of another kind, so each check, limit and origin would exist
// twice, and it ends strings in other places than the JSON standard. Places inside of strings are mapped back through
// the escapes, because explain promises byte ranges.
func (l *loader) parseJSON(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	root, diags := ReadJSON(name, src)
	if diags.HasErrors() {
		return nil, diags
	}
	if at := value.FindLoneSurrogate(string(src)); at >= 0 {
		return nil, hcl.Diagnostics{
			origin.Error(
				fault.Encoding,
				rangeAt(name, src, at),
				"Half of a character",
				"%s is an unpaired surrogate, which is not a character. Write the character, or both halves.",
				src[at:at+6],
			),
		}
	}

	c := &converter{src: src, types: l.types}
	body := c.body(root, fileSchema(schema.TopLevel()))

	return body, c.diags
}

// fileSchema returns a file as a block that contains blocks, and so an override in it.
func fileSchema(blocks []schema.Block) schema.Block {
	file := schema.Block{Blocks: blocks}
	for i, b := range blocks {
		if b.Type == schema.OverrideBlock.Type {
			inner := append([]schema.Block{}, blocks[:i]...)
			file.Blocks[i].Blocks = append(inner, blocks[i+1:]...)
		}
	}

	return file
}

// converter turns JSON values into native nodes.
type converter struct {
	src   []byte
	types map[string]stageType
	diags hcl.Diagnostics
}

func (c *converter) errorf(
	code fault.Code,
	at hcl.Range,
	summary, detail string,
	args ...any,
) {
	c.diags = append(c.diags, origin.Error(code, at, summary, detail, args...))
}

// body converts an object, or an array of objects, which count as one.
func (c *converter) body(n *JSONNode, b schema.Block) *hclsyntax.Body {
	out := &hclsyntax.Body{
		Attributes: hclsyntax.Attributes{},
		SrcRange:   n.Range,
		EndRange:   endOf(n.Range),
	}

	for _, p := range c.properties(n, "arguments and blocks") {
		if nested, ok := b.Find(p.name); ok {
			c.blocks(out, p.value, head{schema: nested, at: p.at})
			continue
		}
		if isLikeBlock(p, b) {
			out.Blocks = append(out.Blocks, &hclsyntax.Block{
				Type:            p.name,
				Body:            &hclsyntax.Body{SrcRange: p.value.Range},
				TypeRange:       p.at,
				OpenBraceRange:  startOf(p.value.Range),
				CloseBraceRange: endOf(p.value.Range),
			})
			continue
		}
		if b.Free && !hclsyntax.ValidIdentifier(p.name) {
			c.errorf(fault.Syntax, p.at, fmt.Sprintf("Invalid name %q", p.name), nameHelp)
			continue
		}
		if first := out.Attributes[p.name]; first != nil {
			c.errorf(fault.Duplicate, p.at, fmt.Sprintf("Duplicate argument %q", p.name),
				duplicateHelp, place(first.NameRange))
			continue
		}

		out.Attributes[p.name] = &hclsyntax.Attribute{
			Name:        p.name,
			Expr:        c.expression(p.value),
			SrcRange:    hcl.RangeBetween(p.at, p.value.Range),
			NameRange:   p.at,
			EqualsRange: endOf(p.at),
		}
	}

	return out
}

// isLikeBlock reports whether a property is to be reported as an unknown block rather than as an unknown argument: in a
// file, or if its name looks like a misspelt block.
func isLikeBlock(p property, b schema.Block) bool {
	if _, isArgument := b.Field(p.name); isArgument || b.Free {
		return false
	}

	isFile := len(b.Fields) == 0 && b.Type == ""
	isStructured := p.value.Kind == JSONArray || p.value.Kind == JSONObject
	_, blocks := b.Names()

	return isFile || isStructured && schema.Nearest(p.name, blocks) != ""
}

// head is the head of a block: its labels are the keys of nested objects.
type head struct {
	schema schema.Block
	at     hcl.Range
	labels []string
	ranges []hcl.Range // of labels
}

// blocks converts a property: an object for each label, and inside of them one object, or an array of several.
func (c *converter) blocks(out *hclsyntax.Body, n *JSONNode, h head) {
	missing := h.schema.Labels[len(h.labels):]

	switch {
	case len(missing) > 0:
		wanted := "the " + missing[0] + " of " + h.schema.Usage()
		for _, p := range c.properties(n, wanted) {
			inner := h
			inner.labels = append(slices.Clip(h.labels), p.name)
			inner.ranges = append(slices.Clip(h.ranges), p.at)
			c.blocks(out, p.value, inner)
		}
	case n.Kind == JSONArray:
		for _, item := range n.Items {
			c.block(out, item, h)
		}
	default:
		c.block(out, n, h)
	}
}

func (c *converter) block(out *hclsyntax.Body, n *JSONNode, h head) {
	if n.Kind == JSONNull {
		return
	}

	inner := h.schema
	if inner.Type == schema.StageBlock.Type {
		inner = schema.Block{Type: h.labels[0], Free: true} // an unknown type is reported later
		if t, ok := c.types[h.labels[0]]; ok {
			inner = t.spec.Block
		}
	}

	typeRange := h.at
	if len(h.ranges) > 0 {
		typeRange = h.ranges[len(h.ranges)-1] // other blocks may be between the type and the last label
	}

	out.Blocks = append(out.Blocks, &hclsyntax.Block{
		Type:            h.schema.Type,
		Labels:          h.labels,
		Body:            c.body(n, inner),
		TypeRange:       typeRange,
		LabelRanges:     h.ranges,
		OpenBraceRange:  startOf(n.Range),
		CloseBraceRange: endOf(n.Range),
	})
}

type property struct {
	name  string
	at    hcl.Range
	value *JSONNode
}

// properties returns the properties of an object, or of all objects of an array, without comments ("//").
func (c *converter) properties(n *JSONNode, what string) (out []property) {
	switch n.Kind {
	case JSONNull:
	case JSONObject:
		for i, key := range n.Keys {
			if key.Text != "//" {
				out = append(out, property{key.Text, key.Range, n.Items[i]})
			}
		}
	case JSONArray:
		for _, item := range n.Items {
			if item.Kind == JSONArray {
				c.needObject(item, what)
				continue
			}
			out = append(out, c.properties(item, what)...)
		}
	default:
		c.needObject(n, what)
	}

	return out
}

func (c *converter) needObject(n *JSONNode, what string) {
	c.errorf(
		fault.Syntax,
		n.Range,
		"An object is needed",
		"Write %s: { … }, or an array of such objects.",
		what,
	)
}

// expression converts a value into the native expression with the same meaning. Strings are templates.
func (c *converter) expression(n *JSONNode) hclsyntax.Expression {
	switch n.Kind {
	case JSONObject:
		object := &hclsyntax.ObjectConsExpr{SrcRange: n.Range, OpenRange: startOf(n.Range)}
		for i, key := range n.Keys {
			object.Items = append(object.Items, hclsyntax.ObjectConsItem{
				KeyExpr: &hclsyntax.ObjectConsKeyExpr{
					Wrapped:         c.template(key),
					ForceNonLiteral: true,
				},
				ValueExpr: c.expression(n.Items[i]),
			})
		}

		return object
	case JSONArray:
		tuple := &hclsyntax.TupleConsExpr{SrcRange: n.Range, OpenRange: startOf(n.Range)}
		for _, item := range n.Items {
			tuple.Exprs = append(tuple.Exprs, c.expression(item))
		}

		return tuple
	case JSONString:
		return c.template(n)
	}

	return &hclsyntax.LiteralValueExpr{Val: c.scalar(n), SrcRange: n.Range}
}

func (c *converter) scalar(n *JSONNode) cty.Value {
	switch n.Kind {
	case JSONBool:
		return cty.BoolVal(n.Text == "true")
	case JSONNumber:
		v, err := cty.ParseNumberVal(n.Text)
		if err != nil {
			c.errorf(fault.Limit, n.Range, numberSummary, numberHelp)
			return cty.DynamicVal
		}

		return v
	}

	return cty.NullVal(cty.DynamicPseudoType)
}

// template parses the text of a string.
func (c *converter) template(n *JSONNode) hclsyntax.Expression {
	start := afterQuote(n.Range)
	unknown := &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: n.Range}

	if len(n.Text) > maxTokens {
		tokens, _ := hclsyntax.LexTemplate([]byte(n.Text), n.Range.Filename, start)
		if len(tokens) > maxTokens {
			c.diags = append(c.diags, tooManyTokens(n.Range))
			return unknown
		}
	}

	x, diags := hclsyntax.ParseTemplate([]byte(n.Text), n.Range.Filename, start)
	escapes := findEscapes(c.src, n.Range)
	for _, d := range diags {
		escapes.moveDiagnostic(d)
	}
	c.diags = append(c.diags, origin.WithCode(diags, fault.Syntax)...)
	if diags.HasErrors() {
		return unknown
	}

	escapes.moveExpression(x)
	if wrap, ok := x.(*hclsyntax.TemplateWrapExpr); ok { // "${x}" is how JSON writes x
		return wrap.Wrapped
	}

	return x
}

func startOf(r hcl.Range) hcl.Range {
	r.End = r.Start
	return r
}

func endOf(r hcl.Range) hcl.Range {
	r.Start = r.End
	return r
}
