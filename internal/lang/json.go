package site

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// parseJSON turns a JSON file into a native syntax tree, so that checks, limits and origins know one kind of tree.
// JSON does not say what is a block: the schema does.
func (l *loader) parseJSON(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	if diags := boundedText(name, src); diags.HasErrors() {
		return nil, diags
	}
	root, diags := readJSON(name, src)
	if diags.HasErrors() {
		return nil, diags
	}
	if at := value.FindLoneSurrogate(string(src)); at >= 0 {
		return nil, hcl.Diagnostics{origin.Error(fault.Encoding, rangeAt(name, src, at), "Half of a character",
			"%s, an unpaired surrogate, is no character, and no text can hold it. Write the character itself, or both of its halves.", src[at:at+6])}
	}
	c := &converter{src: src, types: l.types}
	body := c.body(root, fileSchema(schema.TopLevel()))
	return body, c.diags
}

// fileSchema is a file, or an override, as a block that holds blocks.
func fileSchema(blocks []schema.Block) schema.Block {
	f := schema.Block{Blocks: blocks}
	for i, b := range f.Blocks {
		if b.Type == schema.OverrideBlock.Type {
			inner := append([]schema.Block{}, f.Blocks[:i]...)
			f.Blocks[i].Blocks = append(inner, f.Blocks[i+1:]...)
		}
	}
	return f
}

type converter struct {
	src   []byte
	types map[string]stageType
	diags hcl.Diagnostics
}

func (c *converter) errorf(code fault.Code, at hcl.Range, summary, detail string, args ...any) {
	c.diags = append(c.diags, origin.Error(code, at, summary, detail, args...))
}

// body makes a body of an object, or of an array of objects, which count as one.
func (c *converter) body(e *jsonNode, b schema.Block) *hclsyntax.Body {
	out := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: e.at, EndRange: endOf(e.at)}
	attrs, blocks := b.Names()
	isFile := len(b.Fields) == 0 && !b.Free && b.Type == ""
	known := map[string]bool{}
	for _, n := range attrs {
		known[n] = true
	}
	for _, p := range c.properties(e, "arguments and blocks") {
		if nested, ok := b.Find(p.name); ok {
			c.blocks(out, p.value, nested, p.at, nil, nil)
			continue
		}
		// Neither argument nor block. What looks like a misspelt block becomes one, so that the message says so.
		if !known[p.name] && !b.Free && (isFile || structured(p.value) && schema.Nearest(p.name, blocks) != "") {
			out.Blocks = append(out.Blocks, &hclsyntax.Block{Type: p.name, Body: &hclsyntax.Body{SrcRange: p.value.at}, TypeRange: p.at,
				OpenBraceRange: startOf(p.value.at), CloseBraceRange: endOf(p.value.at)})
			continue
		}
		if b.Free && !hclsyntax.ValidIdentifier(p.name) {
			c.errorf(fault.Syntax, p.at, fmt.Sprintf("%q is no name", p.name), "A name is a letter, followed by letters, digits, _ and -.")
			continue
		}
		if first := out.Attributes[p.name]; first != nil {
			c.errorf(fault.Duplicate, p.at, fmt.Sprintf("Argument %q is there twice", p.name), "The first is at %s. Remove one of them.", place(first.NameRange))
			continue
		}
		out.Attributes[p.name] = &hclsyntax.Attribute{Name: p.name, Expr: c.expression(p.value),
			SrcRange: hcl.RangeBetween(p.at, p.value.at), NameRange: p.at, EqualsRange: endOf(p.at)}
	}
	return out
}

// blocks makes the blocks of a property: one object for each label, then an object, or an array of several.
func (c *converter) blocks(out *hclsyntax.Body, e *jsonNode, b schema.Block, at hcl.Range, labels []string, ranges []hcl.Range) {
	if len(labels) < len(b.Labels) {
		for _, p := range c.properties(e, "the "+b.Labels[len(labels)]+" of "+b.Usage()) {
			c.blocks(out, p.value, b, at, append(labels[:len(labels):len(labels)], p.name), append(ranges[:len(ranges):len(ranges)], p.at))
		}
		return
	}
	if e.kind == jsonArray {
		for _, x := range e.items {
			c.block(out, x, b, at, labels, ranges)
		}
		return
	}
	c.block(out, e, b, at, labels, ranges)
}

func (c *converter) block(out *hclsyntax.Body, e *jsonNode, b schema.Block, at hcl.Range, labels []string, ranges []hcl.Range) {
	if e.null() {
		return
	}
	inner := b
	if b.Type == schema.StageBlock.Type && len(labels) == 2 {
		inner = schema.Block{Type: labels[0], Free: true} // its type is unknown, which is reported where stages are
		if t, ok := c.types[labels[0]]; ok {
			inner = t.spec.Block
		}
	}
	if len(ranges) > 0 {
		at = ranges[len(ranges)-1] // between the block's type and its labels other blocks may stand
	}
	out.Blocks = append(out.Blocks, &hclsyntax.Block{Type: b.Type, Labels: labels, Body: c.body(e, inner), TypeRange: at, LabelRanges: ranges,
		OpenBraceRange: startOf(e.at), CloseBraceRange: endOf(e.at)})
}

type property struct {
	name  string
	at    hcl.Range
	value *jsonNode
}

// properties are those of an object, or of all objects of an array, comments ("//") left out.
func (c *converter) properties(e *jsonNode, what string) (out []property) {
	if e.null() {
		return nil
	}
	switch e.kind {
	case jsonArray:
		for _, x := range e.items {
			if x.kind == jsonArray {
				c.needObject(x, what)
				continue
			}
			out = append(out, c.properties(x, what)...)
		}
	case jsonObject:
		for i, k := range e.keys {
			if k.text != "//" {
				out = append(out, property{k.text, k.at, e.items[i]})
			}
		}
	default:
		c.needObject(e, what)
	}
	return out
}

func (c *converter) needObject(e *jsonNode, what string) {
	c.errorf(fault.Syntax, e.at, "An object is needed", "Here stand %s: { … }, or an array of such objects.", what)
}

// expression turns a JSON value into the native expression that means the same. Strings are templates.
func (c *converter) expression(e *jsonNode) hclsyntax.Expression {
	switch e.kind {
	case jsonObject:
		o := &hclsyntax.ObjectConsExpr{SrcRange: e.at, OpenRange: startOf(e.at)}
		for i, k := range e.keys {
			o.Items = append(o.Items, hclsyntax.ObjectConsItem{KeyExpr: &hclsyntax.ObjectConsKeyExpr{Wrapped: c.template(k.text, k.at), ForceNonLiteral: true}, ValueExpr: c.expression(e.items[i])})
		}
		return o
	case jsonArray:
		t := &hclsyntax.TupleConsExpr{SrcRange: e.at, OpenRange: startOf(e.at)}
		for _, x := range e.items {
			t.Exprs = append(t.Exprs, c.expression(x))
		}
		return t
	case jsonString:
		return c.template(e.text, e.at)
	}
	return &hclsyntax.LiteralValueExpr{Val: e.value, SrcRange: e.at}
}

// template parses the text of a JSON string that stands at a range, quotes included.
func (c *converter) template(text string, at hcl.Range) hclsyntax.Expression {
	start := at.Start
	start.Byte, start.Column = start.Byte+1, start.Column+1
	if len(text) > maxTokens {
		if tokens, _ := hclsyntax.LexTemplate([]byte(text), at.Filename, start); len(tokens) > maxTokens {
			c.diags = append(c.diags, tooManyTokens(at))
			return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
		}
	}
	e, diags := hclsyntax.ParseTemplate([]byte(text), at.Filename, start)
	where := c.escapes(text, at)
	for _, d := range diags {
		where.diagnostic(d)
	}
	c.diags = append(c.diags, origin.WithCode(diags, fault.Syntax)...)
	if diags.HasErrors() {
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
	}
	where.expression(e)
	if w, ok := e.(*hclsyntax.TemplateWrapExpr); ok { // "${x}" is how JSON writes x
		return w.Wrapped
	}
	return e
}

func structured(e *jsonNode) bool { return e.kind == jsonArray || e.kind == jsonObject }

func startOf(r hcl.Range) hcl.Range { r.End = r.Start; return r }
func endOf(r hcl.Range) hcl.Range   { r.Start = r.End; return r }
