package eval

import (
	"cmp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/schema"
)

// Copies are the instances of a block that its `when` and `for_each` make.
type Copies struct {
	All   []Copy // sorted by key
	Known bool   // false: whether or how often the block exists is unknown
}

// Copy is one instance of a block.
type Copy struct {
	Key   string
	Scope Scope
}

// Expand implements schema.Evaluator for blocks with when and for_each.
func (s Scope) Expand(body *hclsyntax.Body) ([]schema.Copy, hcl.Diagnostics) {
	when := expressionOf(body, "when")
	forEach := expressionOf(body, "for_each")
	phase := s.e.Reach(when, forEach).Phase
	if s.only != 0 && phase > s.only {
		// A later phase decides whether the block exists, but this phase needs its attributes.
		s.each = cty.DynamicVal
		return []schema.Copy{{Eval: s}}, nil
	}

	copies, diags := s.Copies(when, forEach)
	if s.reported != 0 && phase <= s.reported {
		diags = nil
	}

	var out []schema.Copy
	for _, c := range copies.All {
		out = append(out, schema.Copy{Eval: c.Scope, Undecided: !copies.Known})
	}

	return out, diags
}

func expressionOf(body *hclsyntax.Body, attribute string) hclsyntax.Expression {
	if a := body.Attributes[attribute]; a != nil {
		return a.Expr
	}
	return nil
}

// Copies returns no copy when `when` is false, and one for each key of for_each, sorted. Where a condition or a
// collection is unknown there is one copy with an unknown element, so that its body is checked.
func (s Scope) Copies(when, forEach hclsyntax.Expression) (Copies, hcl.Diagnostics) {
	copies := Copies{Known: true}
	var diags hcl.Diagnostics
	if when != nil {
		isTrue, isKnown, d := s.condition(when)
		diags = append(diags, d...)
		if d.HasErrors() || isKnown && !isTrue {
			return copies, diags
		}
		copies.Known = isKnown
		s = s.Under(when)
	}
	if forEach == nil {
		copies.All = []Copy{{Scope: s}}
		return copies, diags
	}

	elements, d := s.collection(forEach)
	diags = append(diags, d...)
	if d.HasErrors() {
		return Copies{Known: true}, diags
	}
	if !elements.Known {
		copies.Known = false
	}
	copies.All = elements.All

	return copies, diags
}

// collection returns the copies that for_each makes.
func (s Scope) collection(forEach hclsyntax.Expression) (Copies, hcl.Diagnostics) {
	v, d := s.e.Value(forEach, s.each)
	diags := s.classify(d, forEach)
	if d.HasErrors() {
		return Copies{}, diags
	}
	s.forEach = forEach

	plain, _ := secret.Plain(v)
	if d := refuseCollection(plain, secret.OwnNames(v), forEach.Range()); d != nil {
		return Copies{}, append(diags, d)
	}
	isSet := plain.Type().IsSetType() // its elements are the keys
	isKnown := plain.IsKnown() && (!isSet || plain.IsWhollyKnown())
	switch {
	case !isKnown && s.mayBeUnknown():
		one := Copy{Scope: s.withUnknownEach(plain.Type())}
		return Copies{All: []Copy{one}}, diags
	case !isKnown:
		return Copies{}, append(diags, origin.NotRead(forEach.Range(), unknownValue))
	}

	copies := Copies{Known: true}
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if isSet {
			key = element
		}
		plainKey, _ := secret.Plain(key)
		if !plainKey.IsKnown() || plainKey.IsNull() {
			return Copies{}, append(diags, origin.Error(fault.WrongType, forEach.Range(),
				"A key of for_each is null or unknown", "Copies need names."))
		}
		name := plainKey.AsString()
		copies.All = append(copies.All, Copy{
			Key:   name,
			Scope: s.withEach(cty.StringVal(name), element),
		})
	}
	slices.SortStableFunc(copies.All, func(a, b Copy) int {
		return cmp.Compare(a.Key, b.Key)
	})

	return copies, diags
}

// refuseCollection returns why a value cannot be that of for_each, or nil.
func refuseCollection(plain cty.Value, secrets []string, at hcl.Range) *hcl.Diagnostic {
	switch {
	case len(secrets) > 0:
		return origin.Error(
			fault.Sensitive,
			at,
			"for_each depends on a secret",
			"The number of copies would depend on its content. Use a value without secrets, and put the secret "+
				"into the block.",
		)
	case !isKeyed(plain.Type()):
		return origin.Error(fault.WrongType, at, "Wrong type for for_each",
			"A map, an object or a set of strings is needed, not %s: copies need names. "+
				"For a list: { for x in LIST : x.NAME => x } or toset(LIST).", schema.TypeName(plain.Type()))
	case plain.IsKnown() && plain.IsNull():
		return origin.Error(fault.WrongType, at, "for_each is null", "Write {} for none, or coalesce(x, {}).")
	}

	return nil
}

// isKeyed reports whether the elements of a type have names. Those of an unknown type may.
func isKeyed(t cty.Type) bool {
	if t.IsSetType() {
		return t.ElementType() == cty.String || t.ElementType() == cty.DynamicPseudoType
	}

	return t == cty.DynamicPseudoType || t.IsMapType() || t.IsObjectType()
}

func (s Scope) withUnknownEach(t cty.Type) Scope {
	element := cty.DynamicPseudoType
	if t.IsMapType() || t.IsSetType() {
		element = t.ElementType()
	}

	return s.withEach(cty.UnknownVal(cty.String), cty.UnknownVal(element))
}

// condition returns the value of `when`, and whether it is known.
func (s Scope) condition(x hclsyntax.Expression) (isTrue, isKnown bool, diags hcl.Diagnostics) {
	s.only = 0 // it decides whether there is a block at all
	v, diags := schema.When.Decode(x, s)
	if v.Null() && !diags.HasErrors() {
		names, _ := s.e.Context(x, s.each)
		isNull := &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "when is null", Detail: "true or false is needed.",
			Subject: x.Range().Ptr(), Expression: x, EvalContext: names,
		}
		diags = append(diags, s.classify(hcl.Diagnostics{isNull}, x)...)
	}

	return v.V, v.Set(), diags
}
