package site

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/schema"
)

// definition is one block that has an address; overrides are laid over its body.
type definition struct {
	addr   string // "cluster", "variable.zone", "stage.label.gpu"
	block  *hclsyntax.Block
	body   *hclsyntax.Body // the block's, or what overrides made of it
	schema schema.Block
	typ    *stageType // of a stage
}

// collect takes the blocks of one file.
func (l *loader) collect(body *hclsyntax.Body) {
	l.noArguments(body, "")
	for _, x := range body.Blocks {
		switch x.Type {
		case schema.OverrideBlock.Type:
			if len(x.Labels) > 0 {
				l.errorf(fault.UnknownBlock, x.DefRange(), "Wrong labels of block \"override\"", "It is written %s. The blocks that it changes stand inside, with their labels.", schema.OverrideBlock.Usage())
				continue
			}
			l.overs = append(l.overs, x)
		case schema.LocalsBlock.Type:
			if l.labels(x, schema.LocalsBlock) {
				l.locals(x.Body)
			}
		default:
			if d := l.define(x); d != nil {
				l.keep(d)
			}
		}
	}
}

// noArguments refuses arguments where only blocks stand.
func (l *loader) noArguments(body *hclsyntax.Body, where string) {
	for _, a := range attributes(body) {
		hint := "A file holds blocks; an argument stands inside of one. A value with a name goes into locals { … }."
		if _, ok := topLevel(a.Name); ok {
			hint = fmt.Sprintf("%s is a block: write it without the equals sign, %s { … }.", a.Name, a.Name)
		} else if where != "" {
			hint = "An override holds the blocks that it changes: override { cluster { … } }."
		}
		l.errorf(fault.UnknownArgument, a.NameRange, fmt.Sprintf("Argument %q outside of a block", a.Name), "%s", hint)
	}
}

// define looks at a block's head. It reports what is wrong, and gives nil then.
func (l *loader) define(x *hclsyntax.Block) *definition {
	b, ok := topLevel(x.Type)
	if !ok {
		l.unknownBlock(x)
		return nil
	}
	if !l.labels(x, b) {
		return nil
	}
	if x.Type == schema.ClusterBlock.Type {
		l.token(x.Body)
	}
	d := &definition{addr: strings.Join(append([]string{x.Type}, x.Labels...), "."), block: x, body: x.Body, schema: b}
	if x.Type == schema.StageBlock.Type {
		t, ok := l.types[x.Labels[0]]
		if !ok {
			l.errorf(fault.UnknownStage, x.LabelRanges[0], fmt.Sprintf("There is no stage type %q", x.Labels[0]), "%s", schema.Suggest(x.Labels[0], l.typeNames()))
			return nil
		}
		d.typ, d.schema = &t, t.spec.Block
	}
	if n := len(x.Labels); n > 0 && !hclsyntax.ValidIdentifier(x.Labels[n-1]) {
		l.errorf(fault.Syntax, x.LabelRanges[n-1], fmt.Sprintf("%q is no name", x.Labels[n-1]),
			"The name of a %s is a letter, followed by letters, digits, _ and -, since references use it.", x.Type)
		return nil
	}
	return d
}

func (l *loader) unknownBlock(x *hclsyntax.Block) {
	hint := schema.Suggest(x.Type, topLevelNames())
	if _, ok := l.types[x.Type]; ok {
		hint = fmt.Sprintf("%s is a type of stage: write stage %q \"NAME\" { … }.", x.Type, x.Type)
	}
	l.errorf(fault.UnknownBlock, x.TypeRange, fmt.Sprintf("Unknown block %q", x.Type), "A site has no block of this name. %s", hint)
}

func (l *loader) labels(x *hclsyntax.Block, b schema.Block) bool {
	if len(x.Labels) == len(b.Labels) {
		return true
	}
	l.errorf(fault.UnknownBlock, x.DefRange(), fmt.Sprintf("Wrong labels of block %q", x.Type), "It is written %s.", b.Usage())
	return false
}

// keep takes a definition whose address is new.
func (l *loader) keep(d *definition) {
	if first := l.defs[d.addr]; first != nil {
		l.duplicate(d.block.DefRange(), first.block.DefRange(), describe(d))
		return
	}
	if d.typ != nil && d.typ.spec.Singleton {
		for _, o := range l.order {
			if o.typ != nil && o.typ.spec.Type == d.typ.spec.Type {
				l.errorf(fault.Duplicate, d.block.DefRange(), fmt.Sprintf("A second stage of type %s", d.typ.spec.Type),
					"A site has one of this type at most; the first is %q at %s. Put both into one; what another file shall change goes into override { stage %q %q { … } }.",
					o.block.Labels[1], place(o.block.DefRange()), o.block.Labels[0], o.block.Labels[1])
				break
			}
		}
	}
	l.defs[d.addr] = d
	l.order = append(l.order, d)
}

func (l *loader) duplicate(at, first hcl.Range, what string) {
	hint := "Remove one of them, or give it another name."
	if at.Filename != first.Filename {
		hint = "If this file shall change the other's, write it inside of override { … }; else give it another name."
	}
	l.errorf(fault.Duplicate, at, what+" is defined twice", "The first is at %s. %s", place(first), hint)
}

// locals merges the names of a locals block into the site's.
func (l *loader) locals(body *hclsyntax.Body) {
	for _, x := range body.Blocks {
		l.errorf(fault.UnknownBlock, x.TypeRange, fmt.Sprintf("Unknown block %q", x.Type), "locals holds names with values: %s = { … }.", x.Type)
	}
	for _, a := range attributes(body) {
		if first := l.site.Locals[a.Name]; first != nil {
			l.duplicate(a.NameRange, first.Range, "local."+a.Name)
			continue
		}
		l.site.Locals[a.Name] = &Local{Name: a.Name, Expr: a.Expr, Range: a.SrcRange}
	}
}

// describe names a definition as its head is written.
func describe(d *definition) string {
	s := d.block.Type
	for _, l := range d.block.Labels {
		s += fmt.Sprintf(" %q", l)
	}
	return s
}

func topLevel(typ string) (schema.Block, bool) {
	for _, b := range schema.TopLevel() {
		if b.Type == typ {
			return b, true
		}
	}
	return schema.Block{}, false
}

func topLevelNames() (out []string) {
	for _, b := range schema.TopLevel() {
		out = append(out, b.Type)
	}
	return out
}

func (l *loader) typeNames() (out []string) {
	for n := range l.types {
		out = append(out, n)
	}
	return out
}
