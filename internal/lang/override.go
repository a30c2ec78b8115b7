package site

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/schema"
)

// override lays the blocks of all override blocks over what they name, in order of file and position.
func (l *loader) override() {
	for _, o := range l.overs {
		l.noArguments(o.Body, "override")
		for _, x := range o.Body.Blocks {
			switch x.Type {
			case schema.OverrideBlock.Type:
				l.errorf(fault.UnknownBlock, x.TypeRange, "An override inside of an override", "Write them side by side: they apply in order of file and position.")
			case schema.LocalsBlock.Type:
				if l.labels(x, schema.LocalsBlock) {
					l.overrideLocals(x.Body)
				}
			default:
				l.overrideBlock(x)
			}
		}
	}
}

func (l *loader) overrideBlock(x *hclsyntax.Block) {
	over := l.define(x)
	if over == nil {
		return
	}
	base := l.defs[over.addr]
	if base == nil {
		l.errorf(fault.OverrideMissing, x.DefRange(), "Nothing to override: there is no "+describe(over), "%s A block that shall be there anew is written outside of override.", l.suggestBase(over))
		return
	}
	// Checked before it is merged: a misspelt name with "= null" would vanish without a word.
	before := len(l.diags)
	l.checkMeta(over)
	own := over.body
	if over.typ != nil {
		own, _ = splitMeta(over)
	}
	l.add(optional(over.schema).Check(own, metaNames(over.typ)...)...)
	if len(l.diags) > before {
		return
	}
	m := merger{site: l.site, addr: base.addr}
	base.body = m.merge(base.body, over.body, base.schema, "")
}

// suggestBase names what an override of a block that is not there was probably meant for.
func (l *loader) suggestBase(over *definition) string {
	var near []string
	var there []string
	for _, d := range l.order {
		if d.block.Type != over.block.Type || len(d.block.Labels) == 0 {
			continue
		}
		there = append(there, describe(d))
		if last := len(d.block.Labels) - 1; slices.Equal(d.block.Labels[:last], over.block.Labels[:last]) &&
			schema.Nearest(over.block.Labels[last], d.block.Labels[last:]) != "" {
			near = append(near, describe(d))
		}
	}
	switch {
	case len(near) > 0:
		return fmt.Sprintf("Did you mean %s?", near[0])
	case len(there) > 0:
		slices.Sort(there)
		return "There is: " + strings.Join(there, ", ") + "."
	}
	return fmt.Sprintf("The site has no %s block.", over.block.Type)
}

// overrideLocals replaces locals by name; new ones are added.
func (l *loader) overrideLocals(body *hclsyntax.Body) {
	for _, x := range body.Blocks {
		l.errorf(fault.UnknownBlock, x.TypeRange, fmt.Sprintf("Unknown block %q", x.Type), "locals holds names with values: %s = { … }.", x.Type)
	}
	for _, a := range attributes(body) {
		o := Override{Address: "local." + a.Name, Over: a.SrcRange}
		if base := l.site.Locals[a.Name]; base != nil {
			o.Base = base.Range
		}
		l.site.Locals[a.Name] = &Local{Name: a.Name, Expr: a.Expr, Range: a.SrcRange}
		l.site.Overrides = append(l.site.Overrides, o)
	}
}

// merger lays one body over another and notes each place that changes.
type merger struct {
	site *Site
	addr string
}

// merge gives a new body; base and over stay as they are. Attributes replace whole, null takes the base's away.
// Blocks match by type and labels; unlabelled ones that may repeat, and those that the base lacks, are added.
func (m merger) merge(base, over *hclsyntax.Body, b schema.Block, path string) *hclsyntax.Body {
	out := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, Blocks: slices.Clone(base.Blocks), SrcRange: base.SrcRange, EndRange: base.EndRange}
	for n, a := range base.Attributes {
		out.Attributes[n] = a
	}
	for _, a := range attributes(over) {
		o := Override{Address: m.addr + " " + path + a.Name, Over: a.SrcRange}
		if old := out.Attributes[a.Name]; old != nil {
			o.Base = old.SrcRange
		}
		if b.Free { // what was written as a block before
			out.Blocks = slices.DeleteFunc(out.Blocks, func(x *hclsyntax.Block) bool {
				if x.Type != a.Name {
					return false
				}
				o.Base = x.DefRange()
				return true
			})
		}
		if null(a.Expr) {
			delete(out.Attributes, a.Name)
		} else {
			out.Attributes[a.Name] = a
		}
		m.site.Overrides = append(m.site.Overrides, o)
	}
	for _, x := range over.Blocks {
		m.block(out, x, b, path)
	}
	return out
}

func (m merger) block(out *hclsyntax.Body, x *hclsyntax.Block, b schema.Block, path string) {
	nested, ok := b.Find(x.Type)
	if !ok { // of a free block
		nested = schema.Block{Type: x.Type, Free: true, Max: 1}
	}
	name := path + strings.Join(append([]string{x.Type}, x.Labels...), ".")
	mayRepeat := len(nested.Labels) == 0 && nested.Max != 1
	for i, y := range out.Blocks {
		if mayRepeat || y.Type != x.Type || !slices.Equal(y.Labels, x.Labels) {
			continue
		}
		c := *y
		c.Body = m.merge(y.Body, x.Body, nested, name+".")
		out.Blocks[i] = &c
		return
	}
	o := Override{Address: m.addr + " " + name, Over: x.DefRange()}
	if a := out.Attributes[x.Type]; b.Free && a != nil { // what was written as an attribute before
		o.Base = a.SrcRange
		delete(out.Attributes, x.Type)
	}
	out.Blocks = append(out.Blocks, x)
	m.site.Overrides = append(m.site.Overrides, o)
}

// optional is a block whose arguments may all be left out, at any depth: an override writes only what it changes.
func optional(b schema.Block) schema.Block {
	fields := make([]schema.Field, len(b.Fields))
	for i, f := range b.Fields {
		fields[i] = optionalField{f}
	}
	b.Fields = fields
	b.Blocks = slices.Clone(b.Blocks)
	for i := range b.Blocks {
		b.Blocks[i] = optional(b.Blocks[i])
	}
	return b
}

type optionalField struct{ schema.Field }

func (f optionalField) Spec() schema.Spec {
	s := f.Field.Spec()
	s.Required = false
	return s
}

func null(e hclsyntax.Expression) bool {
	x, ok := e.(*hclsyntax.LiteralValueExpr)
	return ok && x.Val.Type() == cty.DynamicPseudoType && x.Val.IsNull()
}

// attributes are those of a body in the order in which they are written.
func attributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(body.Attributes), func(a, b *hclsyntax.Attribute) int {
		return compareStart(a.NameRange, b.NameRange)
	})
}

func compareStart(a, b hcl.Range) int {
	return cmp.Or(strings.Compare(a.Filename, b.Filename), a.Start.Byte-b.Start.Byte)
}
