package lang

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
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/schema"
)

// override applies all override blocks, in order of file and position.
func (l *loader) override() {
	for _, o := range l.overs {
		l.refuseArguments(
			o.Body,
			"An override contains the blocks that it changes: override { cluster { … } }.",
		)

		for _, x := range o.Body.Blocks {
			switch x.Type {
			case schema.OverrideBlock.Type:
				l.Error(fault.UnknownBlock, x.TypeRange, "An override inside of an override",
					"Write both at the top level: they apply in order of file and position.")
			case schema.LocalsBlock.Type:
				if l.checkLabels(x, schema.LocalsBlock) {
					l.overrideLocals(x.Body)
				}
			default:
				l.overrideBlock(x)
			}
		}
	}
	for _, o := range l.site.Overrides {
		switch {
		case l.isOverride(o.Base): // of two layers that set one argument, the earlier has no effect
			l.Note(
				fault.OverrideIgnored, o.Over, "Two overrides of "+o.Address,
				"The one at %s has no effect: this one replaces the whole argument. Write both in one of them.",
				origin.Place(o.Base),
			)
		case len(o.Dropped) > 0:
			l.Note(
				fault.LayerReplaced, o.Over, "This override drops "+strings.Join(o.Dropped, ", "),
				"It replaces all of %s at %s. Repeat what is to stay, and write null for what is to go; or let a "+
					"layer give the value of a variable.",
				o.Address, origin.Place(o.Base),
			)
		}
	}
}

// listDropped returns the keys of an object that its replacement lacks; none if the replacement is not written out.
func listDropped(before, after hclsyntax.Expression) (dropped []string) {
	was, _ := listKeys(before, "")
	is, isWhole := listKeys(after, "")
	for _, key := range was {
		isSame := func(other string) bool {
			return other == key || strings.HasPrefix(key, other+".") || strings.HasPrefix(other, key+".")
		}
		if isWhole && !slices.ContainsFunc(is, isSame) && !slices.Contains(dropped, key) {
			dropped = append(dropped, key)
		}
	}

	return dropped
}

// listKeys returns the keys that an object may have, and those of objects in it as a.b: in both results of a condition,
// and in each argument of merge(). isWhole is false where it may have keys that are not written out.
func listKeys(x hclsyntax.Expression, prefix string) (keys []string, isWhole bool) {
	var parts []hclsyntax.Expression
	switch x := x.(type) {
	case *hclsyntax.ParenthesesExpr:
		parts = []hclsyntax.Expression{x.Expression}
	case *hclsyntax.ConditionalExpr:
		parts = []hclsyntax.Expression{x.TrueResult, x.FalseResult}
	case *hclsyntax.FunctionCallExpr:
		if x.Name != "merge" {
			return nil, false
		}
		parts = x.Args
	case *hclsyntax.ObjectConsExpr:
		isWhole = true
		for _, item := range x.Items {
			name, diags := item.KeyExpr.Value(nil)
			if diags.HasErrors() || name.Type() != cty.String || !name.IsKnown() || name.IsNull() {
				isWhole = false
				continue
			}
			inner, isObject := listKeys(item.ValueExpr, prefix+name.AsString()+".")
			if len(inner) == 0 || !isObject {
				inner = []string{prefix + name.AsString()}
			}
			keys = append(keys, inner...)
		}

		return keys, isWhole
	default:
		return nil, false
	}

	isWhole = true
	for _, part := range parts {
		inner, isObject := listKeys(part, prefix)
		keys = append(keys, inner...)
		isWhole = isWhole && isObject
	}

	return keys, isWhole
}

// isOverride reports whether a place is in an override block.
func (l *loader) isOverride(at hcl.Range) bool {
	isIn := func(block hcl.Range) bool {
		return at.Filename == block.Filename && at.Start.Byte > block.Start.Byte && at.End.Byte <= block.End.Byte
	}

	return slices.ContainsFunc(l.overs, func(o *hclsyntax.Block) bool { return isIn(o.Body.SrcRange) })
}

func (l *loader) overrideBlock(x *hclsyntax.Block) {
	over := l.define(x)
	if over == nil {
		return
	}

	base := l.defs[over.addr]
	if base == nil {
		l.Error(
			fault.OverrideMissing,
			x.DefRange(),
			"Nothing to override: there is no "+over.String(),
			"%s Write a new block outside of override.",
			l.suggestBase(over),
		)

		return
	}

	// Check before the merge: a misspelt name with "= null" would silently do nothing.
	before := len(l.Diags)
	own, _ := l.splitMeta(over)
	found := over.schema.Check(own, l.language(), metaNames(over.typ)...)
	l.Report(slices.DeleteFunc(found, func(d *hcl.Diagnostic) bool {
		return origin.CodeOf(d) == fault.MissingArgument // an override contains only changes
	})...)
	for _, f := range over.schema.Fields {
		name := f.Spec().Name
		if a := own.Attributes[name]; a != nil && f.Spec().Required && isNull(a.Expr) {
			l.Error(fault.MissingArgument, a.Expr.Range(), fmt.Sprintf("Missing argument %q", name),
				"In an override, null takes an argument away, and %s needs this one. Write a value, or remove this "+
					"line.", base)
		}
	}
	if len(l.Diags) > before || l.refuseMisnamed(base, over) {
		return
	}

	m := merger{site: l.site, addr: base.addr}
	base.body = m.merge(base.body, over.body, base.schema, "")
}

// refuseMisnamed refuses blocks of an override that change a block that the base does not have: without the arguments
// that a new one needs. It reports whether there is one.
func (l *loader) refuseMisnamed(base, over *definition) bool {
	count := len(l.Diags)
	for _, x := range over.body.Blocks {
		nested, exists := over.schema.Find(x.Type)
		if !exists || len(x.Labels) == 0 {
			continue
		}
		var known []string
		for _, y := range base.body.Blocks {
			if y.Type == x.Type {
				known = append(known, strings.Join(y.Labels, "."))
			}
		}
		isMissing := func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.MissingArgument }
		isNew := !slices.Contains(known, strings.Join(x.Labels, "."))
		if isNew && len(known) > 0 && slices.ContainsFunc(nested.Check(x.Body, nil), isMissing) {
			l.Error(
				fault.OverrideMissing,
				x.DefRange(),
				fmt.Sprintf("Nothing to override: %s has no %s %q", base, x.Type, strings.Join(x.Labels, ".")),
				"%s A new one needs all of its arguments.",
				schema.Suggest(strings.Join(x.Labels, "."), known),
			)
		}
	}

	return len(l.Diags) > count
}

// noteBeaten warns of overrides of a variable's default that a vars file beats.
func (l *loader) noteBeaten() {
	for _, o := range l.site.Overrides {
		name, isVariable := strings.CutPrefix(o.Address, schema.VariableBlock.Type+".")
		name, isDefault := strings.CutSuffix(name, " default")
		if x := l.site.Values[name]; isVariable && isDefault && x != nil {
			l.Warn(fault.OverrideIgnored, o.Over, "This default has no effect",
				"The vars file at %s gives var.%s its value, which wins over each default. Write the value in a "+
					"vars file "+
					"of this layer.", origin.Place(x.Range()), name)
		}
	}
}

// suggestBase names the blocks that an override was probably meant for.
func (l *loader) suggestBase(over *definition) string {
	var known []string
	for _, d := range l.order {
		if d.block.Type == over.block.Type && len(d.block.Labels) > 0 {
			known = append(known, d.String())
		}
	}
	slices.Sort(known)

	if near := texts.Nearest(over.String(), known); near != "" {
		return fmt.Sprintf("Did you mean %s?", near)
	}
	if len(known) > 0 {
		return "There is: " + strings.Join(known, ", ") + "."
	}

	return fmt.Sprintf("The site has no %s block.", over.block.Type)
}

// overrideLocals replaces locals by name, or adds them.
func (l *loader) overrideLocals(body *hclsyntax.Body) {
	l.Report(schema.LocalsBlock.Check(body, l.language())...)

	for _, a := range listAttributes(body) {
		o := Override{Address: "local." + a.Name, Over: a.SrcRange}
		if base := l.site.Locals[a.Name]; base != nil {
			o.Base = base.Range
			o.Dropped = listDropped(base.Expr, a.Expr)
		}
		l.site.Locals[a.Name] = &Local{
			Expr:  a.Expr,
			Range: a.SrcRange,
		}
		l.site.Overrides = append(l.site.Overrides, o)
	}
}

// merger merges an override into a body and notes each change.
type merger struct {
	site *Site
	addr string
}

// merge returns a new body. An attribute is replaced as a whole, and null removes it. Blocks match by type and labels;
// blocks that may repeat, and those that the base lacks, are added.
func (m merger) merge(
	base, over *hclsyntax.Body,
	b schema.Block,
	path string,
) *hclsyntax.Body {
	out := &hclsyntax.Body{
		Attributes: maps.Clone(base.Attributes),
		Blocks:     slices.Clone(base.Blocks),
		SrcRange:   base.SrcRange,
		EndRange:   base.EndRange,
	}
	if out.Attributes == nil {
		out.Attributes = hclsyntax.Attributes{}
	}

	for _, a := range listAttributes(over) {
		o := Override{Address: m.addr + " " + path + a.Name, Over: a.SrcRange}
		if old := out.Attributes[a.Name]; old != nil {
			o.Base = old.SrcRange
			o.Dropped = listDropped(old.Expr, a.Expr)
		}
		if isNull(a.Expr) {
			delete(out.Attributes, a.Name)
		} else {
			out.Attributes[a.Name] = a
		}
		m.site.Overrides = append(m.site.Overrides, o)
	}

	for _, x := range over.Blocks {
		m.mergeBlock(out, x, b, path)
	}

	return out
}

func (m merger) mergeBlock(
	out *hclsyntax.Body,
	x *hclsyntax.Block,
	b schema.Block,
	path string,
) {
	nested, _ := b.Find(x.Type)
	name := path + strings.Join(append([]string{x.Type}, x.Labels...), ".")

	mayRepeat := len(nested.Labels) == 0 && nested.Max != 1
	same := slices.IndexFunc(out.Blocks, func(y *hclsyntax.Block) bool {
		return y.Type == x.Type && slices.Equal(y.Labels, x.Labels)
	})
	if same >= 0 && !mayRepeat {
		merged := *out.Blocks[same]
		merged.Body = m.merge(merged.Body, x.Body, nested, name+".")
		out.Blocks[same] = &merged

		return
	}

	out.Blocks = append(out.Blocks, x)
	m.site.Overrides = append(m.site.Overrides, Override{Address: m.addr + " " + name, Over: x.DefRange()})
}

func isNull(e hclsyntax.Expression) bool {
	x, ok := e.(*hclsyntax.LiteralValueExpr)
	return ok && x.Val.Type() == cty.DynamicPseudoType && x.Val.IsNull()
}

// listAttributes returns the attributes of a body in the order in which they are written.
func listAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(body.Attributes), func(a, b *hclsyntax.Attribute) int {
		return CompareRanges(a.NameRange, b.NameRange)
	})
}

// CompareRanges compares by file and place.
func CompareRanges(a, b hcl.Range) int {
	return cmp.Or(
		strings.Compare(a.Filename, b.Filename),
		a.Start.Byte-b.Start.Byte,
	)
}
