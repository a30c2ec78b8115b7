package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
)

// Evaluator gives expressions their values. The language's evaluator is the real one; tests bring their own.
type Evaluator interface {
	// Value evaluates one attribute. Without an error the value is valid, also if there are warnings.
	Value(s Spec, e hclsyntax.Expression) (cty.Value, hcl.Diagnostics)
	// Item returns the expression of one key of a map or object, or nil.
	Item(e hclsyntax.Expression, key string) hclsyntax.Expression
	// Origins returns the origins of an expression: its place, and its references.
	Origins(e hclsyntax.Expression) []origin.Origin
	// Default returns the value of an attribute that is not written and whose default is another stage's output.
	Default(s Spec, at hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics)
	// Expand returns the copies of a block with when or for_each.
	Expand(body *hclsyntax.Body) ([]Copy, hcl.Diagnostics)
}

// Keyer is an Evaluator that also returns the expression of a key itself, in the object literal in which Item finds its
// value, or nil.
type Keyer interface {
	Key(e hclsyntax.Expression, key string) hclsyntax.Expression
}

// Quiet is an Evaluator over a block that was decoded before. IsReported reports whether the diagnostics of an
// attribute have been reported.
type Quiet interface {
	IsReported(s Spec) bool
}

// Copy is one instance of a block with for_each; Key is "" without.
type Copy struct {
	Key       string
	Eval      Evaluator
	Undecided bool // whether it exists is unknown
}

// Meta are the arguments that any block with ForEach takes in addition to its own.
var Meta = []string{"when", "for_each"}

// Decode evaluates a body that Check has accepted. Unknown values are allowed. An attribute whose evaluation fails is
// unknown in the result.
func (b Block) Decode(body *hclsyntax.Body, labels []string, ev Evaluator) (Body, hcl.Diagnostics) {
	return b.DecodeAt(body, labels, ev, hcl.Range{})
}

// DecodeAt is Decode of the body of a block whose head is at a place: diagnostics about arguments that are not written
// have that place. A nil body is that of a block that is not written; the place is then that of the outer block.
func (b Block) DecodeAt(
	body *hclsyntax.Body,
	labels []string,
	ev Evaluator,
	place hcl.Range,
) (Body, hcl.Diagnostics) {
	out := Body{
		Type:    b.Type,
		Labels:  labels,
		Written: body != nil,
		attrs:   map[string]Value[cty.Value]{},
		Blocks:  map[string][]Body{},
	}
	if body == nil {
		body = &hclsyntax.Body{}
	}
	if place.Filename == "" {
		place = body.SrcRange
	}
	out.Range = place

	var diags hcl.Diagnostics
	report := func(s Spec, d hcl.Diagnostics) {
		if q, ok := ev.(Quiet); !ok || !q.IsReported(s) {
			diags = append(diags, d...)
		}
	}

	if b.Free {
		out.Free = map[string]cty.Value{}
		for _, a := range sortedAttributes(body) {
			v, d := ev.Value(Spec{
				Name: a.Name,
				Type: cty.DynamicPseudoType,
				Raw:  true,
			}, a.Expr)
			diags = append(diags, d...)
			out.Free[a.Name] = v
		}
	}

	var references []Spec // defaults that refer to a stage; other attributes may replace these
	for _, f := range b.Fields {
		s := f.Spec()
		a := body.Attributes[s.Name]
		switch {
		case a != nil:
			v, d := b.decodeWritten(s, a, ev)
			report(s, d)
			out.attrs[s.Name] = v
		case s.Ref != nil:
			references = append(references, s)
		default:
			out.attrs[s.Name] = Value[cty.Value]{Cty: s.Default, Range: place}
		}
	}
	for _, s := range references {
		v, d := b.decodeReference(s, out, ev)
		report(s, d)
		out.attrs[s.Name] = v
	}

	for _, block := range b.Blocks {
		bodies, d := b.decodeBlocks(block, body, ev, out.Range)
		diags = append(diags, d...)
		if len(bodies) > 0 {
			out.Blocks[block.Type] = bodies
		}
	}

	return out, diags
}

// decodeWritten decodes an attribute of the site.
func (b Block) decodeWritten(
	s Spec,
	a *hclsyntax.Attribute,
	ev Evaluator,
) (Value[cty.Value], hcl.Diagnostics) {
	out := Value[cty.Value]{
		Cty:     s.Default,
		Expr:    a.Expr,
		Range:   a.Expr.Range(),
		origins: ev.Origins,
	}
	out.item = func(key string) hclsyntax.Expression {
		return ev.Item(a.Expr, key)
	}
	if keyer, ok := ev.(Keyer); ok {
		out.key = func(key string) hclsyntax.Expression {
			return keyer.Key(a.Expr, key)
		}
	}

	v, diags := b.value(s, a, ev)
	if !v.IsKnown() || !v.IsNull() { // null means the default
		out.Cty = v
	}

	return out, diags
}

// decodeReference decodes an attribute that is not written and whose default is another stage's output.
func (b Block) decodeReference(
	s Spec,
	decoded Body,
	ev Evaluator,
) (Value[cty.Value], hcl.Diagnostics) {
	out := Value[cty.Value]{Cty: s.Default, Range: decoded.Range}
	unless := s.Ref.Unless
	if unless.Attribute != "" &&
		decoded.attrs[unless.Attribute].Cty.RawEquals(cty.StringVal(unless.Value)) {
		return out, nil
	}

	v, from, diags := ev.Default(s, decoded.Range)
	out.Cty = v
	out.origins = func(hclsyntax.Expression) []origin.Origin {
		return from
	}

	return out, diags
}

// decodeBlocks decodes the blocks of one type inside of a body.
func (b Block) decodeBlocks(
	declared Block,
	body *hclsyntax.Body,
	ev Evaluator,
	place hcl.Range,
) ([]Body, hcl.Diagnostics) {
	var out []Body
	var diags hcl.Diagnostics
	isWritten := false
	for _, x := range body.Blocks {
		if x.Type != declared.Type {
			continue
		}
		isWritten = true

		copies := []Copy{{Eval: ev}}
		if declared.ForEach {
			var d hcl.Diagnostics
			copies, d = ev.Expand(x.Body)
			diags = append(diags, d...)
		}
		if declared.Max > 0 && len(copies) > declared.Max {
			diags = append(
				diags,
				tooManyBlocks(
					x,
					"for_each makes %d, and %d is the most. Use when.",
					len(copies),
					declared.Max,
				),
			)
			copies = copies[:declared.Max]
		}
		for _, c := range copies {
			decoded, d := declared.DecodeAt(x.Body, x.Labels, c.Eval, x.DefRange())
			decoded.Key = c.Key
			decoded.Undecided = c.Undecided
			diags = append(diags, d...)
			out = append(out, decoded)
		}
	}
	if !isWritten && declared.Always {
		decoded, d := declared.DecodeAt(nil, nil, ev, place)
		return []Body{decoded}, append(diags, d...)
	}

	return out, diags
}

// describeWrongType returns which type is needed, and how the value would be written if that is known.
func describeWrongType(want cty.Type, v cty.Value, err error) string {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		return fmt.Sprintf("%s is needed: %s.", origin.Capitalize(Article(want)), err)
	}

	plain, secrets := value.Plain(v)
	t := plain.Type()
	isText := len(secrets) == 0 && t == cty.String && plain.IsKnown() && !plain.IsNull()
	texts := []cty.Type{cty.List(cty.String), cty.Set(cty.String)}
	wantsTexts := slices.ContainsFunc(texts, want.Equals)
	hint := ""
	switch {
	case isText && wantsTexts:
		hint = fmt.Sprintf(" Write it in brackets: [%q].", plain.AsString())
	case isText && want == cty.Number:
		hint = " Write digits, without quotes: 110."
	case wantsTexts:
		hint = ` Write texts in brackets, as in ["a", "b"].`
	case want == cty.String && (t.IsTupleType() || t.IsListType() || t.IsSetType()):
		hint = " Write one text, in quotes."
	case want == cty.String && (t.IsObjectType() || t.IsMapType()):
		hint = " Encode it: jsonencode(…) or yamlencode(…)."
	}

	return fmt.Sprintf(
		"%s is needed, and this is %s.%s",
		origin.Capitalize(Article(want)),
		Article(t),
		hint,
	)
}

// Article returns the name of a type with its article, for messages.
func Article(t cty.Type) string {
	name := TypeName(t)
	switch {
	case t == cty.DynamicPseudoType:
		return "a value"
	case strings.ContainsRune("aeiou", rune(name[0])):
		return "an " + name
	}
	return "a " + name
}

// value evaluates an attribute, converts it to its type and checks it.
func (b Block) value(s Spec, a *hclsyntax.Attribute, ev Evaluator) (cty.Value, hcl.Diagnostics) {
	v, diags := ev.Value(s, a.Expr)
	if diags.HasErrors() {
		return cty.UnknownVal(s.Type), diags
	}

	refuse := func(code fault.Code, summary, detail string) (cty.Value, hcl.Diagnostics) {
		refusal := origin.Error(code, a.Expr.Range(), summary+s.Name, "%s", detail)
		return cty.UnknownVal(s.Type), append(diags, refusal)
	}
	if !s.Raw { // the stage handles the marks of a raw value
		if len(value.Secrets(v)) > 0 {
			return refuse(
				fault.Sensitive,
				"A secret cannot be used for ",
				"This value is part of the plan, and everybody may read a plan. "+
					"Secrets go into files (write) and the cluster's token only.",
			)
		}
	}

	converted, err := value.Convert(v, s.Type)
	if err != nil {
		return refuse(fault.WrongType, "Wrong type for ", describeWrongType(s.Type, v, err))
	}
	if err := s.check(converted); err != nil {
		return refuse(fault.WrongType, "Wrong value for ", err.Error())
	}

	return converted, diags
}
