package language

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/stages"
)

// Resolved is the target of a reference.
type Resolved struct {
	Address string   // as it is written, with 0 for each computed index
	Type    cty.Type // cty.DynamicPseudoType where it is not known
	Doc     string
}

// Member is what may follow a reference: an attribute, a name, an output.
type Member struct {
	Name string
	Type cty.Type // cty.NilType where it is only a part of an address
	Doc  string
}

// maxDepth is how many locals inference looks through.
const maxDepth = 8

// Resolve returns the target of a reference. It is false for a name that the site does not define.
func (x *Index) Resolve(t hcl.Traversal) (Resolved, bool) {
	return x.resolve(t, 0)
}

func (x *Index) resolve(t hcl.Traversal, depth int) (Resolved, bool) {
	words := namesOf(t)
	if len(words) == 0 {
		return Resolved{}, false
	}

	switch words[0] {
	case string(Variable), string(Local):
		if len(words) < 2 {
			return Resolved{}, false
		}
		s, ok := x.Find(words[0] + "." + words[1])
		if !ok {
			return Resolved{}, false
		}
		if s.Kind == Local && s.Type == cty.NilType { // inference has not reached it
			s.Type = x.infer(s.expr, depth+1)
		}
		symbol := Resolved{Address: s.Address(), Type: s.Type, Doc: s.Doc}
		return follow(symbol, t[2:], nil), true
	case string(Stage):
		return x.resolveStage(words, t)
	case "node":
		node := Resolved{Address: "node", Type: eval.NodeType(), Doc: nodeDoc}
		return follow(node, t[1:], nil), true
	case "each":
		each := Resolved{Address: "each", Type: cty.DynamicPseudoType, Doc: eachDoc}
		return follow(each, t[1:], nil), true
	}

	return Resolved{}, false
}

// Documentation of the names that no block defines.
const (
	nodeDoc = "The node with the contributions of all decide stages."
	eachDoc = "The current element of `for_each`: `each.key` and `each.value`."
)

func (x *Index) resolveStage(words []string, t hcl.Traversal) (Resolved, bool) {
	if len(words) < 3 {
		return Resolved{}, false
	}
	s, ok := x.Find(strings.Join(words[:3], "."))
	if !ok {
		return Resolved{}, false
	}

	r := Resolved{Address: s.Address(), Type: s.Type, Doc: s.Doc}
	if len(t) == 3 {
		return r, true
	}

	docs := map[string]string{}
	for _, o := range x.language.stages[s.StageType].Outputs {
		docs[o.Name] = o.Doc
	}
	if s.StageType == stages.DetectHW {
		for path, fact := range x.language.facts {
			docs[path] = fact.Doc
		}
	}

	return follow(r, t[3:], docs), true
}

// follow applies the steps of a reference to a type. docs has the documentation by path, where [] is an element of a
// list and {} one of a map.
func follow(r Resolved, steps hcl.Traversal, docs map[string]string) Resolved {
	path := ""
	for _, step := range steps {
		name, isName := nameOf(step)
		switch {
		case isName:
			r.Address += showStep(name)
			if r.Type.IsMapType() {
				path += "{}"
			} else {
				path = strings.TrimPrefix(path+"."+name, ".")
			}
			r.Type = attributeType(r.Type, name)
		default:
			r.Address += "[…]"
			if r.Type.IsMapType() {
				path += "{}"
			} else {
				path += "[]"
			}
			r.Type = elementType(r.Type)
		}
		r.Doc = docs[path]
	}

	return r
}

// showStep returns a name as a step of a reference: .model, or ["example.com/rack"].
func showStep(name string) string {
	if hclsyntax.ValidIdentifier(name) {
		return "." + name
	}

	return fmt.Sprintf("[%q]", name)
}

func attributeType(t cty.Type, name string) cty.Type {
	switch {
	case t.IsObjectType() && t.HasAttribute(name):
		return t.AttributeType(name)
	case t.IsMapType():
		return t.ElementType()
	}

	return cty.DynamicPseudoType
}

func elementType(t cty.Type) cty.Type {
	switch {
	case t.IsListType(), t.IsSetType(), t.IsMapType():
		return t.ElementType()
	case t.IsTupleType() && t.Length() > 0:
		return t.TupleElementType(0)
	}

	return cty.DynamicPseudoType
}

// infer returns the type of an expression where it can be known without evaluation: literals, references and calls.
func (x *Index) infer(e hclsyntax.Expression, depth int) cty.Type {
	if depth > maxDepth {
		return cty.DynamicPseudoType
	}

	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val.Type()
	case *hclsyntax.TemplateExpr:
		return cty.String
	case *hclsyntax.ParenthesesExpr:
		return x.infer(e.Expression, depth+1)
	case *hclsyntax.ScopeTraversalExpr:
		if r, ok := x.resolve(e.Traversal, depth); ok {
			return r.Type
		}
	case *hclsyntax.FunctionCallExpr:
		if f, ok := x.language.Functions[e.Name]; ok {
			return f.ReturnType
		}
	case *hclsyntax.ConditionalExpr:
		return x.infer(e.TrueResult, depth+1)
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

// Members returns what may follow the reference before the cursor. It is false where the cursor is neither behind the
// dot of a reference nor in the quotes of its index.
func (x *Index) Members(line string) ([]Member, Place, bool) {
	m := written.FindStringSubmatch(line)
	if m == nil {
		return nil, Place{}, false
	}
	place := Place{Typed: len(m[3]), IsIndex: m[2] != "."}

	return x.membersOf(computedIndex.ReplaceAllString(m[1], "[0]")), place, true
}

func (x *Index) membersOf(reference string) []Member {
	t, diags := hclsyntax.ParseTraversalAbs([]byte(reference), "", hcl.InitialPos)
	if diags.HasErrors() {
		return nil
	}
	words := namesOf(t)
	switch {
	case reference == string(Variable):
		return symbolMembers(x.Of(Variable))
	case reference == string(Local):
		return symbolMembers(x.Of(Local))
	case reference == "each":
		return []Member{
			{Name: "key", Type: cty.DynamicPseudoType, Doc: eachDoc},
			{Name: "value", Type: cty.DynamicPseudoType, Doc: eachDoc},
		}
	case words[0] == string(Stage) && len(t) == 1:
		return x.stageTypeMembers()
	case words[0] == string(Stage) && len(t) == 2 && len(words) == 2:
		isOtherType := func(s Symbol) bool { return s.StageType != words[1] }
		stagesOfType := slices.DeleteFunc(x.Of(Stage), isOtherType)
		return symbolMembers(stagesOfType)
	}

	r, found := x.Resolve(t)
	if !found {
		return nil
	}

	var out []Member
	attributes := attributeTypes(r.Type)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		next := append(slices.Clone(t), hcl.TraverseAttr{Name: name})
		doc, _ := x.Resolve(next)
		out = append(out, Member{Name: name, Type: attributes[name], Doc: doc.Doc})
	}

	return out
}

func symbolMembers(symbols []Symbol) []Member {
	var out []Member
	for _, s := range symbols {
		out = append(out, Member{Name: s.Name, Type: s.Type, Doc: s.Doc})
	}

	return out
}

// stageTypeMembers returns the types of the site's stages.
func (x *Index) stageTypeMembers() []Member {
	used := map[string]bool{}
	for _, s := range x.Of(Stage) {
		used[s.StageType] = true
	}

	var out []Member
	for _, t := range sortedKeys(used) {
		out = append(out, Member{Name: t, Doc: x.language.stages[t].Doc})
	}

	return out
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}
