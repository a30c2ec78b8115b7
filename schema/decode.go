package schema

import (
	"errors"
	"fmt"
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
	// Value evaluates one attribute. Diagnostics without an error mean that the value stands (a left-out item
	// of a map, for example).
	Value(s Spec, e hclsyntax.Expression) (cty.Value, hcl.Diagnostics)
	// Item finds the expression that gave one key of a map or object; nil if it cannot be told.
	Item(e hclsyntax.Expression, key string) hclsyntax.Expression
	// Origins says what an expression rests on: itself, and what it refers to.
	Origins(e hclsyntax.Expression) []origin.Origin
	// Default gives the value of an attribute that is not written and whose default is another stage's output.
	Default(s Spec, at hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics)
	// Expand says how often a block with when or for_each is there, and how each copy is evaluated.
	Expand(body *hclsyntax.Body) ([]Copy, hcl.Diagnostics)
}

// Keyer is an Evaluator that also finds the expression which is a key itself, in the object literal in which Item
// finds its value; nil if there is none.
type Keyer interface {
	Key(e hclsyntax.Expression, key string) hclsyntax.Expression
}

// Quiet is an Evaluator over a block that was decoded before: what was found about some attributes is said.
type Quiet interface {
	Said(s Spec) bool
}

// Copy is one instance of a block with for_each; Key is "" without.
type Copy struct {
	Key       string
	Eval      Evaluator
	Undecided bool     // nothing tells whether it is there
	Unread    []string // the questions without an answer that it is undecided for; nil in a check
}

// Meta are the arguments that any block with ForEach takes beside its own.
var Meta = []string{"when", "for_each"}

// Decode evaluates a body that Check has accepted. Unknown values are allowed and stay unknown. An attribute
// whose evaluation fails is unknown in the result, and its diagnostics say why.
func (b Block) Decode(body *hclsyntax.Body, labels []string, ev Evaluator) (Body, hcl.Diagnostics) {
	return b.DecodeAt(body, labels, ev, hcl.Range{})
}

// DecodeAt is Decode of the body of a block whose head is at a place: what is said about arguments that are not
// written is said there. Of a block that is not written, it is the head of the one around it.
func (b Block) DecodeAt(body *hclsyntax.Body, labels []string, ev Evaluator, place hcl.Range) (Body, hcl.Diagnostics) {
	out := Body{Type: b.Type, Labels: labels, Written: body != nil, attrs: map[string]Value[cty.Value]{}, Blocks: map[string][]Body{}}
	if body == nil {
		body = &hclsyntax.Body{}
	}
	if place.Filename == "" {
		place = body.SrcRange
	}
	out.Range = place
	var diags hcl.Diagnostics
	quiet := func(Spec) bool { return false }
	if q, ok := ev.(Quiet); ok {
		quiet = q.Said
	}
	if b.Free {
		out.Free = map[string]cty.Value{}
		for _, a := range sortedAttributes(body) {
			name := a.Name
			v, d := ev.Value(Spec{Name: name, Type: cty.DynamicPseudoType, Raw: true}, a.Expr)
			diags = append(diags, d...)
			out.Free[name] = v
		}
	}
	var reach []Spec
	for _, f := range b.Fields {
		s := f.Spec()
		if s.Ref != nil && body.Attributes[s.Name] == nil {
			reach = append(reach, s)
			continue
		}
		r := Value[cty.Value]{Cty: s.Default, Range: place}
		if a := body.Attributes[s.Name]; a != nil {
			v, d := b.value(s, a, ev)
			if !quiet(s) {
				diags = append(diags, d...)
			}
			r.Expr, r.Range = a.Expr, a.Expr.Range()
			r.item, r.origins = func(key string) hclsyntax.Expression { return ev.Item(a.Expr, key) }, ev.Origins
			if k, ok := ev.(Keyer); ok {
				r.key = func(key string) hclsyntax.Expression { return k.Key(a.Expr, key) }
			}
			if !v.IsKnown() || !v.IsNull() { // null means the default
				r.Cty = v
			}
		}
		out.attrs[s.Name] = r
	}
	for _, s := range reach { // after what stands beside them, which may say that they reach for nothing
		r := Value[cty.Value]{Cty: s.Default, Range: place}
		if u := s.Ref.Unless; u.Attribute == "" || !out.attrs[u.Attribute].Cty.RawEquals(cty.StringVal(u.Value)) {
			v, from, d := ev.Default(s, place)
			if unread := value.Questions(v); len(unread) > 0 {
				d = append(d, origin.NotRead(place, b.Type+" "+s.Name, unread))
			}
			if !quiet(s) {
				diags = append(diags, d...)
			}
			r.Cty, r.origins = v, func(hclsyntax.Expression) []origin.Origin { return from }
		}
		out.attrs[s.Name] = r
	}
	for _, n := range b.Blocks {
		d := b.nested(n, body, ev, &out)
		diags = append(diags, d...)
	}
	return out, diags
}

func (b Block) nested(n Block, body *hclsyntax.Body, ev Evaluator, out *Body) (diags hcl.Diagnostics) {
	written := 0
	for _, x := range body.Blocks {
		if x.Type != n.Type {
			continue
		}
		written++
		copies := []Copy{{Eval: ev}}
		if n.ForEach {
			var d hcl.Diagnostics
			copies, d = ev.Expand(x.Body)
			diags = append(diags, d...)
		}
		if n.Max > 0 && len(copies) > n.Max {
			diags = append(diags, origin.Error(fault.Duplicate, x.DefRange(), fmt.Sprintf("Too many %q blocks", x.Type), "for_each gives %d, and there can be %d: it has one place. Use when.", len(copies), n.Max))
			copies = copies[:n.Max]
		}
		for _, c := range copies {
			nb, d := n.DecodeAt(x.Body, x.Labels, c.Eval, x.DefRange())
			nb.Key, nb.Undecided, nb.undecided = c.Key, c.Undecided, c.Unread
			diags = append(diags, d...)
			out.Blocks[n.Type] = append(out.Blocks[n.Type], nb)
		}
	}
	if written == 0 && n.Always {
		nb, d := n.DecodeAt(nil, nil, ev, out.Range)
		diags = append(diags, d...)
		out.Blocks[n.Type] = append(out.Blocks[n.Type], nb)
	}
	return diags
}

// describeWrongType says which type is needed, and shows how the value would be written where that can be told.
func describeWrongType(want cty.Type, v cty.Value, err error) string {
	u, secrets, _ := value.Plain(v)
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		return fmt.Sprintf("%s is needed: %s.", upperFirst(Article(want)), err)
	}
	text := fmt.Sprintf("%s is needed, and this is %s.", upperFirst(Article(want)), Article(u.Type()))
	isText := len(secrets) == 0 && u.IsKnown() && !u.IsNull() && u.Type() == cty.String
	switch {
	case isText && (want.Equals(cty.List(cty.String)) || want.Equals(cty.Set(cty.String))):
		text += fmt.Sprintf(" Write it in brackets: [%q].", u.AsString())
	case isText && want == cty.Number:
		text += " Write digits, without quotes: 110."
	case want.Equals(cty.List(cty.String)) || want.Equals(cty.Set(cty.String)):
		text += ` Write texts in brackets, as in ["a", "b"].`
	case want == cty.String && (u.Type().IsTupleType() || u.Type().IsListType() || u.Type().IsSetType()):
		text += " Write one text, in quotes."
	case want == cty.String && (u.Type().IsObjectType() || u.Type().IsMapType()):
		text += " Encode it: jsonencode(…) or yamlencode(…)."
	}
	return text
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

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (b Block) value(s Spec, a *hclsyntax.Attribute, ev Evaluator) (cty.Value, hcl.Diagnostics) {
	v, diags := ev.Value(s, a.Expr)
	if diags.HasErrors() {
		return cty.UnknownVal(s.Type), diags
	}
	c, err := value.Convert(v, s.Type)
	if err != nil {
		return cty.UnknownVal(s.Type), append(diags, origin.Error(fault.WrongType, a.Expr.Range(),
			"Wrong type for "+s.Name, "%s", describeWrongType(s.Type, v, err)))
	}
	if !s.Raw && len(value.Secrets(c)) > 0 {
		return cty.UnknownVal(s.Type), append(diags, origin.Error(fault.Sensitive, a.Expr.Range(),
			"A secret cannot be used for "+s.Name, "This value is carried into the plan as it is, and everybody may read a plan. Secrets go into files (write) and the cluster's token only."))
	}
	if _, _, unread := value.Plain(c); len(unread) > 0 && !s.Raw { // of a raw one the stage says which part it is
		diags = append(diags, origin.NotRead(a.Expr.Range(), b.Type+" "+s.Name, unread))
	}
	if err := s.check(c); err != nil {
		return cty.UnknownVal(s.Type), append(diags, origin.Error(fault.WrongType, a.Expr.Range(), "Wrong value for "+s.Name, "%s", err))
	}
	return c, diags
}
