package language

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/schema"
)

// Kind is the kind of a name of a site: the first word of its references.
type Kind string

// The kinds of names that a site defines.
const (
	Variable Kind = "var"
	Local    Kind = "local"
	Stage    Kind = "stage"
)

// The endings of the files that are not a site's own native files.
const (
	varsSuffix = ".prelet.vars"
	testSuffix = ".prelettest.hcl"
)

// Symbol is a name that the site defines: a variable, a local or a stage.
type Symbol struct {
	Kind      Kind
	StageType string // of a stage
	Name      string
	Doc       string
	Type      cty.Type  // of the value; cty.DynamicPseudoType where it is not known before the evaluation
	Range     hcl.Range // of the name, without quotes
	Block     hcl.Range // of all that defines it
	expr      hclsyntax.Expression
}

// Address returns how the symbol is referred to.
func (s Symbol) Address() string {
	if s.Kind == Stage {
		return fmt.Sprintf("%s.%s.%s", s.Kind, s.StageType, s.Name)
	}

	return fmt.Sprintf("%s.%s", s.Kind, s.Name)
}

// Use is one place where a name is written: its definition, a reference, an override, a value in a vars file.
type Use struct {
	Address      string
	Range        hcl.Range     // of the name
	Whole        hcl.Range     // of the whole reference
	Traversal    hcl.Traversal // nil where it is not a reference
	IsDefinition bool
}

// Index has the names of a site and the places where they are written.
type Index struct {
	Symbols []Symbol // in the order of files and places
	Uses    []Use

	language  *Language
	files     map[string]*hcl.File
	byAddress map[string]int // positions in Symbols, of the first definition
}

// NewIndex reads the names of native files that are parsed as far as possible. The files of a site, its vars files and
// its tests are distinguished by their names.
func (l *Language) NewIndex(files map[string]*hcl.File) *Index {
	x := &Index{language: l, files: files, byAddress: map[string]int{}}

	for _, name := range sortedKeys(files) {
		body, ok := files[name].Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		switch {
		case strings.HasSuffix(name, varsSuffix):
			x.addVariableUses(body)
		case strings.HasSuffix(name, testSuffix):
			x.addTest(body)
		default:
			x.addBlocks(body, false)
		}
		x.addReferences(body)
	}
	for i := range x.Symbols {
		if x.Symbols[i].Kind == Local {
			x.Symbols[i].Type = x.infer(x.Symbols[i].expr, 0)
		}
	}

	return x
}

// Find returns the symbol with an address.
func (x *Index) Find(address string) (Symbol, bool) {
	i, ok := x.byAddress[address]
	if !ok {
		return Symbol{}, false
	}

	return x.Symbols[i], true
}

// Of returns the symbols of a kind.
func (x *Index) Of(kind Kind) []Symbol {
	var out []Symbol
	for _, s := range x.Symbols {
		if s.Kind == kind {
			out = append(out, s)
		}
	}

	return out
}

// At returns the use of a name at a byte of a file. Its end counts, because there is the cursor after a word.
func (x *Index) At(file string, offset int) (Use, bool) {
	for _, u := range x.Uses {
		if u.Range.Filename == file && contains(u.Range, offset) {
			return u, true
		}
	}

	return Use{}, false
}

// UsesOf returns the places where a name is written, in the order of files and places.
func (x *Index) UsesOf(address string) []Use {
	var out []Use
	for _, u := range x.Uses {
		if u.Address == address {
			out = append(out, u)
		}
	}

	return out
}

// ReferenceAt returns the reference at a byte of a file, such as the one around gpus in stage.detect-hw.node.gpus[0].
func (x *Index) ReferenceAt(file string, offset int) (Use, bool) {
	for _, u := range x.Uses {
		if u.Traversal != nil && u.Whole.Filename == file && contains(u.Whole, offset) {
			return u, true
		}
	}

	return Use{}, false
}

func contains(r hcl.Range, offset int) bool {
	return r.Start.Byte <= offset && offset <= r.End.Byte
}

// addBlocks adds the definitions of a file, or the places of an override block, which define nothing.
func (x *Index) addBlocks(body *hclsyntax.Body, isOverride bool) {
	for _, b := range body.Blocks {
		switch {
		case b.Type == schema.OverrideBlock.Type && !isOverride:
			x.addBlocks(b.Body, true)
		case b.Type == schema.LocalsBlock.Type:
			x.addLocals(b, isOverride)
		case b.Type == schema.VariableBlock.Type && len(b.Labels) == 1:
			x.define(x.variable(b), isOverride)
		case b.Type == schema.StageBlock.Type && len(b.Labels) == 2:
			x.define(x.stage(b), isOverride)
		}
	}
}

// define adds a symbol with its place. In an override only the place is added: the definition is elsewhere.
func (x *Index) define(s Symbol, isOverride bool) {
	if !isOverride {
		if _, isDuplicate := x.byAddress[s.Address()]; !isDuplicate {
			x.byAddress[s.Address()] = len(x.Symbols)
		}
		x.Symbols = append(x.Symbols, s)
	}
	x.Uses = append(x.Uses, Use{
		Address:      s.Address(),
		Range:        s.Range,
		Whole:        s.Range,
		IsDefinition: !isOverride,
	})
}

func (x *Index) addLocals(b *hclsyntax.Block, isOverride bool) {
	for _, name := range sortedKeys(b.Body.Attributes) {
		a := b.Body.Attributes[name]
		s := Symbol{
			Kind:  Local,
			Name:  name,
			Range: a.NameRange,
			Block: a.SrcRange,
			expr:  a.Expr,
		}
		x.define(s, isOverride)
	}
}

func (x *Index) variable(b *hclsyntax.Block) Symbol {
	s := Symbol{
		Kind:  Variable,
		Name:  b.Labels[0],
		Type:  cty.String, // the default of the language
		Range: x.unquote(b.LabelRanges[0]),
		Block: b.Range(),
	}
	if a := b.Body.Attributes[schema.VariableType.Name]; a != nil {
		t, diags := typeexpr.TypeConstraint(a.Expr)
		if diags.HasErrors() {
			t = cty.DynamicPseudoType
		}
		s.Type = t
	}
	if a := b.Body.Attributes[schema.VariableDescription.Name]; a != nil {
		s.Doc = literalText(a.Expr)
	}

	return s
}

func (x *Index) stage(b *hclsyntax.Block) Symbol {
	s := Symbol{
		Kind:      Stage,
		StageType: b.Labels[0],
		Name:      b.Labels[1],
		Type:      cty.DynamicPseudoType,
		Range:     x.unquote(b.LabelRanges[1]),
		Block:     b.Range(),
	}
	if t, ok := x.language.stages[s.StageType]; ok {
		s.Doc = t.Doc
		s.Type = outputType(t)
	}

	return s
}

// outputType returns the object type that references to a stage have.
func outputType(t schema.StageType) cty.Type {
	attributes := map[string]cty.Type{}
	for _, o := range t.Outputs {
		attributes[o.Name] = o.Type
	}

	return cty.Object(attributes)
}

// addVariableUses adds the names of a body whose attributes are values of variables.
func (x *Index) addVariableUses(body *hclsyntax.Body) {
	for _, name := range sortedKeys(body.Attributes) {
		r := body.Attributes[name].NameRange
		x.addVariableUse(name, r)
	}
}

// addVariableUse adds the name of a variable at a place.
func (x *Index) addVariableUse(name string, at hcl.Range) {
	variable := Symbol{Kind: Variable, Name: name}
	x.Uses = append(x.Uses, Use{
		Address: variable.Address(),
		Range:   at,
		Whole:   at,
	})
}

// addTest adds the variables that a test file sets, in blocks and in objects.
func (x *Index) addTest(body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		if b.Type == "variables" {
			x.addVariableUses(b.Body)
			continue
		}
		if a := b.Body.Attributes["variables"]; a != nil {
			x.addVariableKeys(a.Expr)
		}
		x.addTest(b.Body)
	}
}

// addVariableKeys adds the names in an object whose items are values of variables.
func (x *Index) addVariableKeys(e hclsyntax.Expression) {
	object, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return
	}

	for _, item := range object.Items {
		if name := hcl.ExprAsKeyword(item.KeyExpr); name != "" {
			x.addVariableUse(name, item.KeyExpr.Range())
		}
	}
}

// addReferences adds all references in the expressions of a file.
func (x *Index) addReferences(body *hclsyntax.Body) {
	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
			x.addReference(e.Traversal)
		}
		return nil
	})
}

func (x *Index) addReference(t hcl.Traversal) {
	use := Use{Traversal: t, Whole: t.SourceRange()}
	words := namesOf(t)
	at := 0 // of the name

	twoWords := []string{string(Variable), string(Local)}
	switch {
	case len(words) > 1 && slices.Contains(twoWords, words[0]):
		at = 1
	case len(words) > 2 && words[0] == string(Stage):
		at = 2
	}
	if at > 0 {
		use.Address = strings.Join(words[:at+1], ".")
		use.Range = x.nameIn(t[at], words[at])
	}

	x.Uses = append(x.Uses, use)
}

// namesOf returns the names at the beginning of a reference, up to the first index that is not a text. An index by a
// text is a name as well: var["zone"] is var.zone.
func namesOf(t hcl.Traversal) []string {
	var names []string
	for _, step := range t {
		name, ok := nameOf(step)
		if !ok {
			break
		}
		names = append(names, name)
	}

	return names
}

// nameOf returns the name in one step of a reference.
func nameOf(step hcl.Traverser) (string, bool) {
	switch s := step.(type) {
	case hcl.TraverseRoot:
		return s.Name, true
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString(), true
		}
	}

	return "", false
}

// nameIn returns the range of the name in a step: what is between the quotes of an index, or behind the dot.
func (x *Index) nameIn(step hcl.Traverser, name string) hcl.Range {
	r := step.SourceRange()
	if _, isIndex := step.(hcl.TraverseIndex); !isIndex {
		return lastBytes(r, len(name))
	}
	file := x.files[r.Filename]
	if file == nil || !r.CanSliceBytes(file.Bytes) {
		return r
	}

	text := r.SliceBytes(file.Bytes)
	first, last := bytes.IndexByte(text, '"'), bytes.LastIndexByte(text, '"')
	if first < 0 {
		return r
	}
	r.End.Column -= len(text) - last
	r.End.Byte -= len(text) - last
	r.Start.Column += first + 1
	r.Start.Byte += first + 1

	return r
}

// lastBytes returns the last n bytes of a range on one line: the name in ".name".
func lastBytes(r hcl.Range, n int) hcl.Range {
	skipped := r.End.Byte - r.Start.Byte - n
	if skipped > 0 {
		r.Start.Byte += skipped
		r.Start.Column += skipped
	}

	return r
}

// unquote returns the range of a label without its quotes.
func (x *Index) unquote(r hcl.Range) hcl.Range {
	file := x.files[r.Filename]
	if file == nil || !r.CanSliceBytes(file.Bytes) {
		return r
	}

	text := r.SliceBytes(file.Bytes)
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		r.Start.Byte++
		r.Start.Column++
		r.End.Byte--
		r.End.Column--
	}

	return r
}

// literalText returns a text without interpolation; "" for any other expression.
func literalText(e hclsyntax.Expression) string {
	t, ok := e.(*hclsyntax.TemplateExpr)
	if !ok || !t.IsStringLiteral() {
		return ""
	}
	v, diags := t.Value(nil)
	hasValue := v.IsKnown() && !v.IsNull()
	if diags.HasErrors() || !hasValue || v.Type() != cty.String {
		return ""
	}

	return v.AsString()
}
