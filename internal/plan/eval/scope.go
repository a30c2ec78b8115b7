package eval

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
)

// Scope is how the attributes of one block are evaluated. It implements schema.Evaluator.
type Scope struct {
	e        *Eval
	addr     string
	each     cty.Value
	forEach  hclsyntax.Expression // the collection that each is an element of
	when     hclsyntax.Expression
	only     schema.Phase // attributes of a later phase are unknown; 0: all are evaluated
	reported schema.Phase // diagnostics of that phase's attributes have been reported; 0: of none
	soft     bool         // an error that a null fact causes is a warning (label, taint)
}

// Scope makes the scope of a block. Origins show addr as the owner.
func (e *Eval) Scope(addr string) Scope {
	return Scope{
		e:    e,
		addr: addr,
		each: cty.NilVal,
	}
}

// Soft returns s with warnings in place of the errors that null facts cause.
func (s Scope) Soft() Scope {
	s.soft = true
	return s
}

// Only returns s for attributes of one phase. All others are unknown.
func (s Scope) Only(p schema.Phase) Scope {
	s.only = p
	return s
}

// After returns s without the diagnostics that Only of that phase has reported for the same block.
func (s Scope) After(p schema.Phase) Scope {
	s.reported = p
	return s
}

// IsReported implements schema.Evaluator.
func (s Scope) IsReported(spec schema.Spec) bool {
	return s.reported != 0 && spec.Phase == s.reported
}

func (s Scope) withEach(key, v cty.Value) Scope {
	s.each = cty.ObjectVal(map[string]cty.Value{"key": key, "value": v})
	return s
}

// Each returns the value of `each`; cty.NilVal outside of for_each.
func (s Scope) Each() cty.Value { return s.each }

// ForEach returns the collection that each is an element of; nil outside of for_each.
func (s Scope) ForEach() hclsyntax.Expression { return s.forEach }

// Under returns s with the condition that the block exists under, for origins.
func (s Scope) Under(when hclsyntax.Expression) Scope {
	s.when = when
	return s
}

// Value implements schema.Evaluator.
func (s Scope) Value(spec schema.Spec, x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	if s.only != 0 && spec.Phase != s.only {
		return cty.UnknownVal(spec.Type), nil
	}
	if object, ok := value.Unwrap(x).(*hclsyntax.ObjectConsExpr); ok && spec.Items && s.soft {
		return s.items(spec, object)
	}

	e := s.e
	if spec.SeesReserved {
		e = e.withOwnReserved()
	}
	v, diags := s.evaluate(e, x)
	isNull := func(d *hcl.Diagnostic) bool { return origin.CodeOf(d) == fault.NullFact }
	switch {
	case diags.HasErrors():
	case spec.Certain && (slices.ContainsFunc(diags, isNull) || isTrue(v) && e.namesUnread(x)):
		return cty.NullVal(spec.Type), diags
	default:
		return v, diags
	}

	diags = s.classify(diags, x)
	switch {
	case !spec.Soft || origin.Code(diags) == fault.Unread:
		return cty.UnknownVal(spec.Type), diags
	case s.e.Checking():
		return cty.UnknownVal(spec.Type), toNotes(diags)
	}

	return cty.NullVal(spec.Type), toNotes(diags)
}

func isTrue(v cty.Value) bool { return v.RawEquals(cty.True) }

// evaluate evaluates an expression of the block in e. What its recording does not contain is the only value of a
// machine that is not known.
func (s Scope) evaluate(e *Eval, x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Value(x, s.each)
	if !s.mayBeUnknown() && !diags.HasErrors() && !v.IsWhollyKnown() {
		diags = append(diags, origin.NotRead(x.Range(), unknownValue))
	}

	return v, s.explainNulls(diags)
}

const unknownValue = "a value that this expression needs. Serial numbers, UUIDs and MAC addresses are recorded by " +
	"`prelet record --with-identity`"

// mayBeUnknown reports whether the block may have unknown values.
func (s Scope) mayBeUnknown() bool {
	return s.e.isPartial || !s.each.IsKnown()
}

// items evaluates an object literal item by item. An item that fails for a null fact is left out, with a warning.
func (s Scope) items(
	spec schema.Spec, object *hclsyntax.ObjectConsExpr,
) (cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	out := map[string]cty.Value{}
	isUnknown := false

	for _, item := range object.Items {
		key, v, d := s.item(item)
		diags = append(diags, d...)
		if v == cty.NilVal {
			isUnknown = isUnknown || d.HasErrors()
			continue
		}

		name, ok := value.KeyText(key)
		if !ok {
			isUnknown = true
			continue
		}
		if _, duplicate := out[name]; duplicate {
			diags = append(diags, origin.Error(fault.Duplicate, item.KeyExpr.Range(),
				fmt.Sprintf("Duplicate key %q", name), "Remove one of them."))
		}
		out[name] = v
	}
	if isUnknown {
		return cty.UnknownVal(spec.Type), diags
	}

	return cty.ObjectVal(out), diags
}

// item evaluates one item of an object literal. The value of an item that fails is cty.NilVal.
func (s Scope) item(item hclsyntax.ObjectConsItem) (key, v cty.Value, diags hcl.Diagnostics) {
	key, diags = s.evaluate(s.e, item.KeyExpr)
	diags = append(diags, functions.CheckSecretKey(key, item.KeyExpr.Range())...)
	if !diags.HasErrors() {
		isText := !key.IsNull() && key.Type().IsPrimitiveType()
		if key.IsKnown() && !isText {
			wrong := origin.Error(fault.WrongType, item.KeyExpr.Range(), "Wrong key", "A key must be a string.")
			diags = append(diags, wrong)
		}
	}
	if !diags.HasErrors() {
		var d hcl.Diagnostics
		v, d = s.evaluate(s.e, item.ValueExpr)
		diags = append(diags, d...)
	}
	if diags.HasErrors() {
		return key, cty.NilVal, Soften(s.classify(diags, item.KeyExpr, item.ValueExpr))
	}

	return key, v, diags
}

// Item implements schema.Evaluator: through parentheses, locals, merge, and the branch that is taken.
func (s Scope) Item(x hclsyntax.Expression, key string) hclsyntax.Expression {
	_, v := s.e.findItem(x, key, s.each, 0)
	return v
}

// Key implements schema.Evaluator.
func (s Scope) Key(x hclsyntax.Expression, key string) hclsyntax.Expression {
	k, _ := s.e.findItem(x, key, s.each, 0)
	return k
}

// maxIndirections is how many locals, calls and branches findItem looks through.
const maxIndirections = 16

// findItem returns the key and the value of one item of an object, or the element of a tuple with an index; nil if it
// is in no literal. It follows the trace, and evaluates nothing.
func (e *Eval) findItem(
	x hclsyntax.Expression,
	key string,
	each cty.Value,
	depth int,
) (k, v hclsyntax.Expression) {
	if depth > maxIndirections {
		return nil, nil
	}

	switch x := value.Unwrap(x).(type) {
	case *hclsyntax.ObjectConsExpr:
		if i := e.findKey(x, key, each); i >= 0 {
			return x.Items[i].KeyExpr, x.Items[i].ValueExpr
		}
	case *hclsyntax.TupleConsExpr:
		if i, err := strconv.Atoi(key); err == nil && i < len(x.Exprs) {
			return nil, x.Exprs[i]
		}
	case *hclsyntax.FunctionCallExpr:
		if x.Name == "merge" {
			return e.findMerged(x.Args, key, each, depth+1)
		}
	case *hclsyntax.ConditionalExpr:
		switch isTrue, isKnown := asCondition(e.recorded(x.Condition, each)); {
		case isKnown && isTrue:
			return e.findItem(x.TrueResult, key, each, depth+1)
		case isKnown:
			return e.findItem(x.FalseResult, key, each, depth+1)
		}
	case *hclsyntax.ScopeTraversalExpr:
		name, _, ok := findSecondName(x.Traversal)
		isLocal := ok && x.Traversal.RootName() == "local" && len(x.Traversal) == 2
		if local := e.site.Locals[name]; isLocal && local != nil {
			return e.findItem(local.Expr, key, each, depth+1)
		}
	}

	return nil, nil
}

// findMerged finds an item in the last argument of merge() that has it.
func (e *Eval) findMerged(
	args []hclsyntax.Expression,
	key string,
	each cty.Value,
	depth int,
) (k, v hclsyntax.Expression) {
	for _, arg := range slices.Backward(args) {
		if k, v := e.findItem(arg, key, each, depth); v != nil {
			return k, v
		}
		v, d := e.recorded(arg, each)
		if !d.HasErrors() && hasKey(v, key) {
			return nil, arg
		}
	}

	return nil, nil
}

// Condition returns whether a condition is true, and whether that is known.
func (e *Eval) Condition(x hclsyntax.Expression, each cty.Value) (isTrue, isKnown bool) {
	return asCondition(e.Value(x, each))
}

func asCondition(v cty.Value, diags hcl.Diagnostics) (isTrue, isKnown bool) {
	if diags.HasErrors() {
		return false, false
	}

	plain, _ := secret.Plain(v)
	b, err := convert.Convert(plain, cty.Bool) // as HCL does
	if err != nil || !b.IsKnown() || b.IsNull() {
		return false, false
	}

	return b.True(), true
}

// keyIndex is where the keys of an object literal are: literal keys, and those that must be evaluated.
type keyIndex struct {
	literal  map[string]int
	computed []int
}

// findKey returns the position of an item in an object literal, or -1. Of two equal keys the last one counts.
func (e *Eval) findKey(object *hclsyntax.ObjectConsExpr, key string, each cty.Value) int {
	index := e.indexKeys(object)
	for _, i := range slices.Backward(index.computed) {
		v, diags := e.recorded(object.Items[i].KeyExpr, each)
		if diags.HasErrors() {
			continue
		}
		if name, ok := value.KeyText(v); ok && name == key {
			return i
		}
	}
	if i, ok := index.literal[key]; ok {
		return i
	}

	return -1
}

// indexKeys indexes each object once: callers look for each of its keys.
func (e *Eval) indexKeys(object *hclsyntax.ObjectConsExpr) keyIndex {
	if index, ok := e.keys[object]; ok {
		return index
	}

	index := keyIndex{literal: map[string]int{}}
	for i, item := range object.Items {
		if name, ok := value.LiteralText(item.KeyExpr); ok {
			index.literal[name] = i
		} else {
			index.computed = append(index.computed, i)
		}
	}
	e.keys[object] = index

	return index
}

func hasKey(v cty.Value, key string) bool {
	plain, _ := secret.Plain(v)
	if !plain.IsKnown() || plain.IsNull() {
		return false
	}
	if plain.Type().IsObjectType() {
		return plain.Type().HasAttribute(key)
	}

	return plain.Type().IsMapType() && plain.HasIndex(cty.StringVal(key)).True()
}
