package lang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/schema"
)

const (
	nameHelp      = "A name is a letter, followed by letters, digits, _ and -."
	duplicateHelp = "The first is at %s. Remove one of them."
)

// definition is one block with an address. Overrides change its body.
type definition struct {
	addr   string // "cluster", "variable.zone", "stage.label.gpu"
	block  *hclsyntax.Block
	body   *hclsyntax.Body // of the block, with overrides
	schema schema.Block
	typ    *stageType // of a stage
}

// String formats the head of the block as it is written.
func (d *definition) String() string {
	s := d.block.Type
	for _, l := range d.block.Labels {
		s += fmt.Sprintf(" %q", l)
	}

	return s
}

func (l *loader) collect(body *hclsyntax.Body) {
	l.refuseArguments(
		body,
		"A file contains blocks. Write a value with a name inside of locals { … }, and that of a variable in a file "+
			"*"+varsSuffix+".",
	)

	for _, x := range body.Blocks {
		switch x.Type {
		case schema.OverrideBlock.Type:
			if l.checkLabels(x, schema.OverrideBlock) {
				l.overs = append(l.overs, x)
			}
		case schema.LocalsBlock.Type:
			if l.checkLabels(x, schema.LocalsBlock) {
				l.addLocals(x.Body)
			}
		default:
			if d := l.define(x); d != nil {
				l.addDefinition(d)
			}
		}
	}
}

// refuseArguments refuses arguments where only blocks are allowed.
func (l *loader) refuseArguments(body *hclsyntax.Body, help string) {
	for _, a := range listAttributes(body) {
		hint := cmp.Or(schema.SuggestPlace(a.Name, false, nil, l.language()), help)
		if b, ok := findTopLevel(a.Name); ok {
			hint = fmt.Sprintf("%s is a block: write it without the equals sign, %s.", a.Name, b.Usage())
		}
		l.Error(
			fault.UnknownArgument,
			a.NameRange,
			fmt.Sprintf("Argument %q outside of a block", a.Name),
			"%s",
			hint,
		)
	}
}

// define checks the head of a block. It returns nil after an error.
func (l *loader) define(x *hclsyntax.Block) *definition {
	b, ok := findTopLevel(x.Type)
	if !ok {
		l.reportUnknownBlock(x)
		return nil
	}
	if !l.checkLabels(x, b) {
		return nil
	}

	d := &definition{
		addr:   strings.Join(append([]string{x.Type}, x.Labels...), "."),
		block:  x,
		body:   x.Body,
		schema: b,
	}

	switch x.Type {
	case schema.ClusterBlock.Type:
		l.checkToken(x.Body)
	case schema.StageBlock.Type:
		name := x.Labels[0]
		t, ok := l.types[name]
		if !ok {
			known := slices.Collect(maps.Keys(l.types))
			l.Error(
				fault.UnknownStage,
				x.LabelRanges[0],
				fmt.Sprintf("Unknown stage type %q", name),
				"%s",
				cmp.Or(schema.SuggestPlace(name, true, nil, l.language()), schema.Suggest(name, known)),
			)

			return nil
		}
		d.typ, d.schema = &t, t.spec.Block
	}

	last := len(x.Labels) - 1
	if last >= 0 && !hclsyntax.ValidIdentifier(x.Labels[last]) {
		l.Error(
			fault.Syntax,
			x.LabelRanges[last],
			fmt.Sprintf("Invalid name %q", x.Labels[last]),
			nameHelp,
		)
		return nil
	}

	return d
}

func (l *loader) reportUnknownBlock(x *hclsyntax.Block) {
	var names []string
	for _, b := range schema.TopLevel() {
		names = append(names, b.Type)
	}

	hint := cmp.Or(schema.SuggestPlace(x.Type, true, names, l.language()), schema.Suggest(x.Type, names))
	if _, ok := l.types[x.Type]; ok {
		hint = fmt.Sprintf("%s is a type of stage: write stage %q \"NAME\" { … }.", x.Type, x.Type)
	}
	l.Error(fault.UnknownBlock, x.TypeRange, fmt.Sprintf("Unknown block %q", x.Type),
		"A site has no block of this name. %s", hint)
}

func (l *loader) checkLabels(x *hclsyntax.Block, b schema.Block) bool {
	if len(x.Labels) == len(b.Labels) {
		return true
	}
	usage := b.Usage()
	if x.Type == schema.OverrideBlock.Type && len(x.Labels) == 2 {
		usage = fmt.Sprintf("override { stage %q %q { … } }, with what changes in that stage", x.Labels[0], x.Labels[1])
	}
	l.Error(fault.UnknownBlock, x.DefRange(), fmt.Sprintf("Wrong labels of block %q", x.Type), "Write %s.", usage)

	return false
}

// addDefinition adds a definition unless it is a duplicate.
func (l *loader) addDefinition(d *definition) {
	if first := l.defs[d.addr]; first != nil {
		l.reportDuplicate(d.block.DefRange(), first.block.DefRange(), d.String())
		return
	}

	l.defs[d.addr] = d
	l.order = append(l.order, d)
}

// mergeSingletons leaves one stage of each type of which a site has one. A further stage may add blocks to it, so that
// a layer can have files of its own without knowing the name of that stage.
func (l *loader) mergeSingletons() {
	first := map[string]*definition{}
	for _, d := range l.order {
		if !d.isSingleton() {
			continue
		}
		one := first[d.typ.spec.Type]
		if one == nil || one.isAddition() && !d.isAddition() {
			first[d.typ.spec.Type] = d
		}
	}

	l.order = slices.DeleteFunc(l.order, func(d *definition) bool {
		if !d.isSingleton() || d == first[d.typ.spec.Type] {
			return false
		}
		one := first[d.typ.spec.Type]
		if d.isAddition() {
			body := *one.body
			body.Blocks = slices.Concat(body.Blocks, d.body.Blocks)
			one.body = &body
			return true
		}

		hint := ""
		if adds := d.typ.spec.Adds; len(adds) > 0 {
			hint = fmt.Sprintf(" A further one has only %s blocks, which are added to the first.",
				strings.Join(adds, " and "))
		}
		l.Error(
			fault.Duplicate,
			d.block.DefRange(),
			fmt.Sprintf("A second stage of type %s", d.typ.spec.Type),
			"A site may have one; the first is at %s. Merge them, or change the first in another file with "+
				"override { %s { … } }.%s",
			origin.Place(one.block.DefRange()),
			one,
			hint,
		)

		return false
	})
}

func (d *definition) isSingleton() bool { return d.typ != nil && d.typ.spec.Singleton }

// isAddition reports whether a stage consists of blocks that are added to another one of its type.
func (d *definition) isAddition() bool {
	isOther := func(x *hclsyntax.Block) bool { return !slices.Contains(d.typ.spec.Adds, x.Type) }

	return len(d.body.Attributes) == 0 && len(d.body.Blocks) > 0 && !slices.ContainsFunc(d.body.Blocks, isOther)
}

// copied has the names that two files both define, and the diagnostic about them.
type copied struct {
	names      []string
	diagnostic *hcl.Diagnostic
}

// reportDuplicate reports a second definition. For all that one file repeats of another there is one error.
func (l *loader) reportDuplicate(at, first hcl.Range, what string) {
	if at.Filename == first.Filename {
		l.Error(fault.Duplicate, at, what+" is defined twice", "The first is at %s. Remove one of them, or rename it.",
			origin.Place(first))
		return
	}

	const change = "To change what the other defines, write override { … }."
	files := [2]string{at.Filename, first.Filename}
	if c := l.copies[files]; c != nil {
		c.names = append(c.names, what)
		c.diagnostic.Summary = fmt.Sprintf("%d names are defined twice", len(c.names))
		c.diagnostic.Detail = fmt.Sprintf("%s defines them too: %s. Remove the file that is a copy. %s",
			first.Filename, strings.Join(c.names, ", "), change)
		return
	}

	d := origin.Error(fault.Duplicate, at, what+" is defined twice",
		"The first is at %s. Remove one of them, or the whole file if it is a copy. %s", origin.Place(first), change)
	l.Report(d)
	if l.copies == nil {
		l.copies = map[[2]string]*copied{}
	}
	l.copies[files] = &copied{[]string{what}, d}
}

// addLocals adds the names of a locals block.
func (l *loader) addLocals(body *hclsyntax.Body) {
	l.Report(schema.LocalsBlock.Check(body, l.language())...)

	for _, a := range listAttributes(body) {
		if first := l.site.Locals[a.Name]; first != nil {
			l.reportDuplicate(a.NameRange, first.Range, "local."+a.Name)
			continue
		}
		l.site.Locals[a.Name] = &Local{
			Expr:  a.Expr,
			Range: a.SrcRange,
		}
	}
}

// language returns the blocks that may be outside of all others, each stage with the head that it has in the site.
func (l *loader) language() []schema.Block {
	all := schema.TopLevel()
	for _, name := range slices.Sorted(maps.Keys(l.types)) {
		b := l.types[name].spec.Block
		b.Labels = nil
		b.Fields = slices.Concat(b.Fields, l.types[name].spec.Meta())
		b.Type = cmp.Or(l.heads[name], fmt.Sprintf("stage %q \"NAME\"", name))
		all = append(all, b)
	}

	return all
}

// headsOfStages returns how the blocks of stages begin, one for each type: of several the kubelet's.
func headsOfStages(bodies []*hclsyntax.Body) map[string]string {
	heads := map[string]string{}
	for _, body := range bodies {
		for _, x := range body.Blocks {
			if x.Type != schema.StageBlock.Type || len(x.Labels) != len(schema.StageBlock.Labels) {
				continue
			}
			if heads[x.Labels[0]] == "" || x.Labels[1] == "kubelet" {
				heads[x.Labels[0]] = fmt.Sprintf("%s %q %q", x.Type, x.Labels[0], x.Labels[1])
			}
		}
	}

	return heads
}

func findTopLevel(typ string) (schema.Block, bool) {
	return schema.Block{Blocks: schema.TopLevel()}.Find(typ)
}
