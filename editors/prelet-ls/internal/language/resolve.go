package language

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
)

// Resolved is the target of a reference.
type Resolved struct {
	Address string   // as it is written, with … for each computed index
	Type    cty.Type // cty.DynamicPseudoType where it is not known
	Doc     string
	path    string // of the documentation, where [] is an element of a list and {} one of a map
}

// Member is a name that may follow a reference: an attribute, a stage, an output.
type Member struct {
	Name string
	Type cty.Type
	Doc  string
}

// builtinDocs documents the names that no block defines.
var builtinDocs = map[string]string{
	"node":       "The node with the contributions of all decide stages.",
	"each":       "The current element of `for_each`: `each.key` and `each.value`.",
	"each.key":   "The key of the current element of `for_each`.",
	"each.value": "The value of the current element of `for_each`.",
}

// makeScope makes the types of all that a reference can name from the symbols. The first of two definitions counts.
func (x *Index) makeScope() {
	names := map[Kind]map[string]cty.Type{Variable: {}, Local: {}}
	types := map[string]map[string]cty.Type{} // of stages
	for _, s := range slices.Backward(x.Symbols) {
		if s.Kind != Stage {
			names[s.Kind][s.Name] = s.Type
			continue
		}
		if types[s.StageType] == nil {
			types[s.StageType] = map[string]cty.Type{}
		}
		types[s.StageType][s.Name] = s.Type
	}

	stages := map[string]cty.Type{}
	for t, instances := range types {
		stages[t] = cty.Object(instances)
	}
	x.scope = cty.Object(map[string]cty.Type{
		string(Variable): cty.Object(names[Variable]),
		string(Local):    cty.Object(names[Local]),
		string(Stage):    cty.Object(stages),
		"node":           eval.NodeType(),
		"each": cty.Object(map[string]cty.Type{
			"key":   cty.DynamicPseudoType,
			"value": cty.DynamicPseudoType,
		}),
	})
}

// Resolve returns the target of a reference. It is false for what does not exist, as far as it is known.
func (x *Index) Resolve(t hcl.Traversal) (Resolved, bool) {
	r := Resolved{Type: x.scope}
	for _, step := range t {
		name, isName := value.StepKey(step)
		_, isAttribute := step.(hcl.TraverseAttr)
		if isName {
			r.Address += value.FormatStep(name)
		} else {
			r.Address += "[…]"
		}

		switch {
		case r.Type == cty.DynamicPseudoType:
			r.path += "?"
		case isName && r.Type.IsObjectType() && r.Type.HasAttribute(name):
			r.Type = r.Type.AttributeType(name)
			r.path += "." + name
		case r.Type.IsMapType():
			r.Type = r.Type.ElementType()
			r.path += "{}"
		case !isAttribute && (r.Type.IsListType() || r.Type.IsSetType()):
			r.Type = r.Type.ElementType()
			r.path += "[]"
		default:
			return Resolved{}, false
		}
	}
	r.Address = strings.TrimPrefix(r.Address, ".")
	r.Doc = x.docOf(r.path)

	return r, true
}

// docOf returns the documentation of a referenced item. The documentation of a stage's output does not depend on its
// name.
func (x *Index) docOf(path string) string {
	path = strings.TrimPrefix(path, ".")
	if s, ok := x.Find(path); ok {
		return s.Doc
	}

	words := strings.SplitN(path, ".", 4)
	switch {
	case words[0] != string(Stage):
		return builtinDocs[path]
	case len(words) == 2:
		return x.language.stages[words[1]].Doc
	case len(words) == 4:
		return x.language.outputs[words[1]][words[3]]
	}

	return ""
}

// infer returns the type of an expression where it can be known without evaluation: literals, references and calls.
func (x *Index) infer(e hclsyntax.Expression) cty.Type {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val.Type()
	case *hclsyntax.TemplateExpr:
		return cty.String
	case *hclsyntax.ScopeTraversalExpr:
		if r, ok := x.Resolve(e.Traversal); ok {
			return r.Type
		}
	case *hclsyntax.FunctionCallExpr:
		if f, ok := x.language.Functions[e.Name]; ok {
			return f.ReturnType
		}
	case *hclsyntax.BinaryOpExpr:
		return e.Op.Type
	case *hclsyntax.UnaryOpExpr:
		return e.Op.Type
	}

	return cty.DynamicPseudoType
}

// written finds a reference that ends at the cursor, as far as it is typed. An index may be computed.
var written = regexp.MustCompile(
	`(?:^|[^\w.\-\]])((?:var|local|stage|node|each)(?:\.[\w-]+|\[[^\[\]\n]*\])*)(\.|\[")([\w-]*)$`)

// computedIndex is an index that is not a text in quotes.
var computedIndex = regexp.MustCompile(`\[[^"\]]*\]`)

// Place is where the name of a member is typed.
type Place struct {
	Typed   int  // bytes of the name before the cursor
	IsIndex bool // in the quotes of an index, not behind a dot
}

// Members returns the names that may follow the reference before the cursor. It is false unless the cursor is behind
// the dot of a reference or in the quotes of its index.
func (x *Index) Members(line string) ([]Member, Place, bool) {
	m := written.FindStringSubmatch(line)
	if m == nil {
		return nil, Place{}, false
	}
	place := Place{Typed: len(m[3]), IsIndex: m[2] != "."}

	reference := computedIndex.ReplaceAllString(m[1], "[0]")
	t, diags := hclsyntax.ParseTraversalAbs([]byte(reference), "", hcl.InitialPos)
	r, found := x.Resolve(t)
	if diags.HasErrors() || !found {
		return nil, place, true
	}

	var out []Member
	types := attributeTypes(r.Type)
	for _, name := range sortedKeys(types) {
		out = append(out, Member{
			Name: name,
			Type: types[name],
			Doc:  x.docOf(r.path + "." + name),
		})
	}

	return out, place, true
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}
