package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
)

// Evaluator gives expressions their values. The language's evaluator is the real one; tests bring their own.
type Evaluator interface {
	// Value evaluates one attribute. Without an error the value is valid, also if there are warnings.
	Value(s Spec, e hclsyntax.Expression) (cty.Value, hcl.Diagnostics)
	// Item returns the expression of one key of a map or object that was evaluated, or nil.
	Item(e hclsyntax.Expression, key string) hclsyntax.Expression
	// Key returns the expression of a key itself, in the object literal in which Item finds its value, or nil.
	Key(e hclsyntax.Expression, key string) hclsyntax.Expression
	// Origins returns the origins of an expression: its place, and its references.
	Origins(e hclsyntax.Expression) []origin.Origin
	// Default returns the value of an attribute that is not written and whose default is another stage's output.
	Default(s Spec, at hcl.Range) (cty.Value, []origin.Origin, hcl.Diagnostics)
	// Expand returns the copies of a block with when or for_each.
	Expand(body *hclsyntax.Body) ([]Copy, hcl.Diagnostics)
	// IsReported reports whether the diagnostics of an attribute have been reported, over a block that was decoded
	// before.
	IsReported(s Spec) bool
}

// Copy is one instance of a block with for_each.
type Copy struct {
	Eval      Evaluator
	Undecided bool // whether it exists is unknown
}

// Meta are the arguments that any block with ForEach takes in addition to its own.
var Meta = []string{"when", "for_each"}

// Decode evaluates a body that Check has accepted. Unknown values are allowed. An attribute whose evaluation fails is
// unknown in the result.
func (b Block) Decode(
	body *hclsyntax.Body,
	labels []string,
	ev Evaluator,
) (Body, hcl.Diagnostics) {
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
		if !ev.IsReported(s) {
			diags = append(diags, d...)
		}
	}

	if b.Free {
		out.Free = map[string]cty.Value{}
		for _, a := range sortedAttributes(body) {
			v, d := ev.Value(Spec{
				Name: a.Name,
				Type: cty.DynamicPseudoType,
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
			v, d := s.decode(a.Expr, ev)
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

// Decode decodes an expression that is not in the body of a block, such as a condition.
func (a Attr[T]) Decode(x hclsyntax.Expression, ev Evaluator) (Value[T], hcl.Diagnostics) {
	v, diags := a.Spec().decode(x, ev)

	return a.fill(v), diags
}

// decode decodes the expression of an attribute that the site writes.
func (s Spec) decode(x hclsyntax.Expression, ev Evaluator) (Value[cty.Value], hcl.Diagnostics) {
	out := Value[cty.Value]{
		Cty:   s.Default,
		Expr:  x,
		Range: x.Range(),
		ev:    ev,
	}

	v, diags := ev.Value(s, x)
	if diags.HasErrors() {
		out.Cty = cty.UnknownVal(s.Type)
		return out, diags
	}

	v, d := s.convert(v, out)
	if !v.IsKnown() || !v.IsNull() { // null means the default
		out.Cty = v
	}

	return out, append(diags, d...)
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
	out.from = from

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

// describeWrongType returns which type is needed for a value, or for an item of it, and how that would be written if it
// is known.
func (s Spec) describeWrongType(want cty.Type, v cty.Value) string {
	plain, secrets := secret.Plain(v)
	t := plain.Type()
	isText := len(secrets) == 0 && t == cty.String && plain.IsKnown() && !plain.IsNull()
	wantsTexts := want.Equals(cty.List(cty.String))
	hint := ""
	switch {
	case isText && wantsTexts:
		hint = fmt.Sprintf(" Write it in brackets: [%q].", plain.AsString())
	case s.form != "":
		hint = " Write it as " + s.form + "."
	case want == cty.Bool && isText && isExpression(plain.AsString()):
		hint = " Remove the quotes: " + plain.AsString()
	case want == cty.Bool && t == cty.Number:
		hint = " Compare it, as in NUMBER > 0."
	case want == cty.Bool:
		hint = " Write true or false."
	case isText && want == cty.Number && strings.ContainsAny(plain.AsString(), "-,"):
		hint = " It is how many. " + whichCPUs
	case isText && want == cty.Number:
		hint = " Write digits, without quotes: 110."
	case wantsTexts:
		hint = ` Write texts in brackets, as in ["a", "b"].`
	case want.IsMapType():
		hint = ` Write names and values in braces, as in { "a" = "b" }.`
	case want == cty.String && (t.IsTupleType() || t.IsListType() || t.IsSetType()):
		hint = " Write one text, without brackets. LIST[0] is the first of a list."
	case want == cty.String && s.Type.IsMapType() && (t.IsObjectType() || t.IsMapType()):
		hint = " Write one text, in quotes. MAP[\"KEY\"] is one of a map."
	case want == cty.String && s.Type.IsMapType():
		hint = " Write one text, in quotes."
	case want == cty.String && t.IsObjectType() && t.HasAttribute("resource_version"):
		hint = " A ConfigMap has texts: write its data[\"KEY\"], of kubelet-config data[\"kubelet\"]."
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

// isAlike reports whether another value like this one may have a type: another text may be a number, but no text is a
// list, and only a word for true or false is meant as a bool.
func isAlike(want cty.Type, v cty.Value) bool {
	if want == cty.Bool {
		text, _ := value.KeyText(v)
		return slices.Contains([]string{"yes", "no", "on", "off", "true", "false", "0", "1"}, strings.ToLower(text))
	}

	return want.IsPrimitiveType() == v.Type().IsPrimitiveType()
}

// isExpression reports whether a text is an expression with a reference, a call or an operator.
func isExpression(text string) bool {
	x, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
	if diags.HasErrors() {
		return false
	}
	switch x := x.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return len(x.Traversal) > 1
	case *hclsyntax.FunctionCallExpr, *hclsyntax.BinaryOpExpr, *hclsyntax.UnaryOpExpr:
		return true
	}

	return false
}

// Article returns the name of a type with its article, for messages.
func Article(t cty.Type) string {
	name := TypeName(t)
	switch {
	case t.IsTupleType(): // as a list is written
		return "a list"
	case t == cty.DynamicPseudoType:
		return "a value"
	case strings.ContainsRune("aeiou", rune(name[0])):
		return "an " + name
	}
	return "a " + name
}

// convert converts the value of a written attribute to its type and checks it. A value that is refused is unknown in
// the result.
func (s Spec) convert(v cty.Value, written Value[cty.Value]) (out cty.Value, diags hcl.Diagnostics) {
	switch {
	case s.nullNext != "" && v.IsKnown() && v.IsNull():
		d := origin.Error(s.nullCode, written.Range, s.Name+" is null", "%s", s.nullNext)
		return cty.UnknownVal(s.Type), hcl.Diagnostics{d}
	case s.isOfItems(v):
		out, diags = s.convertItems(v, written)
	default:
		var d *hcl.Diagnostic
		if out, d = s.convertOne(v, s.Type, s.Name); d != nil {
			d.Subject = written.Range.Ptr()
			diags = hcl.Diagnostics{d}
		}
	}
	if diags.HasErrors() {
		return out, diags
	}

	if err := s.check(out); err != nil {
		at := written.Range
		if key, itemErr := s.findRefused(out); itemErr != nil {
			at, err = written.ItemRange(key), itemErr
		}
		d := origin.Error(fault.WrongType, at, "Wrong value for "+s.Name, "%s", err)
		return cty.UnknownVal(s.Type), hcl.Diagnostics{d}
	}

	return out, nil
}

// findRefused returns the first item of a list that the rule of the attribute refuses for itself.
func (s Spec) findRefused(list cty.Value) (key string, refused error) {
	if !s.Type.IsListType() || !isFillable(list) {
		return "", nil
	}
	for it := list.ElementIterator(); it.Next(); {
		k, item := it.Element()
		if err := s.check(cty.ListVal([]cty.Value{item})); err != nil {
			key, _ = value.KeyText(k)
			return key, err
		}
	}

	return "", nil
}

// isOfItems reports whether a value is decoded item by item.
func (s Spec) isOfItems(v cty.Value) bool {
	t := v.Type()
	switch {
	case v.IsMarked() || !v.IsKnown() || v.IsNull():
		return false
	case s.Type.IsMapType():
		return t.IsMapType() || t.IsObjectType()
	}

	return s.Type.IsListType() && (t.IsListType() || t.IsTupleType() || t.IsSetType())
}

// convertItems converts the items of a map or a list, of which each has its own place. cty would compare the types of
// all pairs of elements, which takes seconds for the ten thousand elements that a site may have.
func (s Spec) convertItems(v cty.Value, written Value[cty.Value]) (_ cty.Value, diags hcl.Diagnostics) {
	items := map[string]cty.Value{}
	var list []cty.Value
	for it := v.ElementIterator(); it.Next(); {
		k, element := it.Element()
		key, _ := value.KeyText(k)
		item, d := s.convertOne(element, s.Type.ElementType(), s.Name+value.FormatStep(key))
		if d != nil {
			d.Subject = written.ItemRange(key).Ptr()
			diags = append(diags, d)
		}
		items[key] = item
		list = append(list, item)
	}

	switch {
	case len(list) == 0:
		return value.Absent(s.Type), diags
	case s.Type.IsMapType():
		return cty.MapVal(items), diags
	}

	return cty.ListVal(list), diags
}

// adviseSecret returns the next step for an argument that takes no secret.
func adviseSecret(name string) string {
	if strings.HasSuffix(name, "_credential") {
		return "Write the name of the credential alone, in quotes: prelet reads it when it needs it."
	}

	return "This value is part of the plan, and everybody may read a plan. " +
		"Secrets go into files (write) and the cluster's token only."
}

// convertOne converts a value, or an item of one, with this name to a type. Its diagnostic has no place.
func (s Spec) convertOne(v cty.Value, t cty.Type, name string) (cty.Value, *hcl.Diagnostic) {
	takesSecrets := s.raw && s.secretWhy == ""
	if !takesSecrets && len(secret.Names(v)) > 0 {
		return cty.UnknownVal(t), origin.Error(
			fault.Sensitive, hcl.Range{}, "A secret cannot be used for "+name, "%s",
			cmp.Or(s.secretWhy, adviseSecret(s.Name)),
		)
	}
	if v.IsKnown() && v.IsNull() { // of any type, such as a fact that is null on this machine
		return cty.NullVal(t), nil
	}

	converted, err := convert.Convert(v, t)
	if err != nil {
		d := origin.Error(fault.WrongType, hcl.Range{}, "Wrong type for "+name, "%s", s.describeWrongType(t, v))
		d.Extra = origin.Extra{Code: fault.WrongType, IsOfUse: !isAlike(t, v)}

		return cty.UnknownVal(t), d
	}

	return converted, nil
}
