package language

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
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
	Address      string        // "" of a reference to something that no block defines, such as node.labels
	Range        hcl.Range     // of the name
	Whole        hcl.Range     // of the whole reference
	Traversal    hcl.Traversal // nil where it is not a reference
	IsDefinition bool
}

// Index has the names of a site and the places where they are written.
type Index struct {
	Symbols []Symbol // in the order of files and places
	Uses    []Use

	language *Language
	files    map[string]*hcl.File
	scope    cty.Type // an object with the first names of references
}

// NewIndex reads the names of native files that are parsed as far as possible. The files of a site, its vars files and
// its tests are distinguished by their names.
func (l *Language) NewIndex(files map[string]*hcl.File) *Index {
	x := &Index{language: l, files: files}

	for _, name := range sortedKeys(files) {
		body, ok := files[name].Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		switch {
		case lang.IsVarsFile(name):
			x.addVariableUses(body)
		case lang.IsTestFile(name):
			x.addTest(body)
		default:
			x.addBlocks(body, false)
		}
		x.addReferences(body)
	}

	x.makeScope()
	for i, s := range x.Symbols {
		if s.Kind == Local {
			x.Symbols[i].Type = x.infer(s.expr)
		}
	}
	x.makeScope() // with the types of locals

	return x
}

// Find returns the first symbol with an address; ok is false for none.
func (x *Index) Find(address string) (Symbol, bool) {
	for _, s := range x.Symbols {
		if s.Address() == address {
			return s, true
		}
	}

	return Symbol{}, false
}

func (x *Index) Of(kind Kind) []Symbol {
	var out []Symbol
	for _, s := range x.Symbols {
		if s.Kind == kind {
			out = append(out, s)
		}
	}

	return out
}

// At returns the name or the reference at a byte of a file, such as the one around gpus in
// stage.detect-hw.node.gpus[0]. Its end counts, because there is the cursor after a word.
func (x *Index) At(file string, offset int) (Use, bool) {
	for _, u := range x.Uses {
		r := u.Whole
		if r.Filename == file && r.Start.Byte <= offset && offset <= r.End.Byte {
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

// addBlocks adds the definitions of a file, or the places of an override block, which define nothing.
func (x *Index) addBlocks(body *hclsyntax.Body, isOverride bool) {
	for _, b := range body.Blocks {
		switch {
		case b.Type == schema.OverrideBlock.Type && !isOverride:
			x.addBlocks(b.Body, true)
		case b.Type == schema.LocalsBlock.Type:
			x.addLocals(b, isOverride)
		case b.Type == schema.VariableBlock.Type && len(b.Labels) == 1:
			x.define(variable(b), b.LabelRanges[0], isOverride)
		case b.Type == schema.StageBlock.Type && len(b.Labels) == 2:
			x.define(x.stage(b), b.LabelRanges[1], isOverride)
		}
	}
}

// define adds a symbol whose name is in a range. In an override only the place is added: the definition is elsewhere.
func (x *Index) define(s Symbol, at hcl.Range, isOverride bool) {
	s.Range = x.nameRange(at, s.Name)
	if !isOverride {
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
			Type:  cty.DynamicPseudoType,
			Block: a.SrcRange,
			expr:  a.Expr,
		}
		x.define(s, a.NameRange, isOverride)
	}
}

func variable(b *hclsyntax.Block) Symbol {
	s := Symbol{
		Kind:  Variable,
		Name:  b.Labels[0],
		Type:  cty.String, // the default of the language
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
		text, _ := value.LiteralText(a.Expr)
		s.Doc = secret.HideEvident(text)
	}

	return s
}

func (x *Index) stage(b *hclsyntax.Block) Symbol {
	s := Symbol{
		Kind:      Stage,
		StageType: b.Labels[0],
		Name:      b.Labels[1],
		Type:      cty.DynamicPseudoType,
		Block:     b.Range(),
	}
	t, ok := x.language.stages[s.StageType]
	if !ok {
		return s
	}

	outputs := map[string]cty.Type{}
	for _, o := range t.Outputs {
		outputs[o.Name] = o.Type
	}
	s.Doc = t.Doc
	s.Type = cty.Object(outputs)
	if b.Body.Attributes[schema.ForEach.Name] != nil {
		s.Type = cty.Map(s.Type)
	}

	return s
}

// addVariableUses adds the names of a body whose attributes are values of variables.
func (x *Index) addVariableUses(body *hclsyntax.Body) {
	for _, name := range sortedKeys(body.Attributes) {
		x.addVariableUse(name, body.Attributes[name].NameRange)
	}
}

// addVariableUse adds the name of a variable at a place.
func (x *Index) addVariableUse(name string, at hcl.Range) {
	x.Uses = append(x.Uses, Use{
		Address: Symbol{Kind: Variable, Name: name}.Address(),
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
	at := NameStep(t.RootName())

	var names []string
	for _, step := range t[:min(at+1, len(t))] {
		if name, ok := value.StepKey(step); ok {
			names = append(names, name)
		}
	}
	if at > 0 && len(names) == at+1 {
		use.Address = strings.Join(names, ".")
		use.Range = x.nameRange(t[at].SourceRange(), names[at])
	}
	x.Uses = append(x.Uses, use)
}

// NameStep returns the step of a reference that is the name of a symbol, by its first word: NAME in var.NAME and in
// stage.TYPE.NAME; 0 for other words.
func NameStep(root string) int {
	switch Kind(root) {
	case Variable, Local:
		return 1
	case Stage:
		return 2
	}

	return 0
}

// nameRange returns the range of a name in a label or in a step of a reference: without quotes, dot and brackets.
func (x *Index) nameRange(r hcl.Range, name string) hcl.Range {
	file := x.files[r.Filename]
	if file == nil || !r.CanSliceBytes(file.Bytes) {
		return r
	}
	at := bytes.Index(r.SliceBytes(file.Bytes), []byte(name))
	if at < 0 { // it is written with an escape
		return r
	}

	r.Start.Byte += at
	r.Start.Column += at
	r.End = r.Start
	r.End.Byte += len(name)
	r.End.Column += len(name)

	return r
}
