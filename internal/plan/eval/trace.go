package eval

import (
	"reflect"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

// trace records which value expressions had with which names: those that decide which part of another one gives its
// value, or each expression and each part of one.
type trace struct {
	mu     sync.Mutex // gather stages evaluate at the same time
	steps  map[hclsyntax.Expression][]step
	isFull bool
	below  *trace // of the run, for a trace of what follows it; nil: none
}

// step is one evaluation of an expression.
type step struct {
	v     cty.Value
	diags hcl.Diagnostics
	names *hcl.EvalContext // those of the whole expression; of a part in a loop, a child of them
}

func newTrace(isFull bool, below *trace) *trace {
	return &trace{steps: map[hclsyntax.Expression][]step{}, isFull: isFull, below: below}
}

// WithTrace returns e with a record of all that it evaluates from now on. That of e itself is not changed.
func (e *Eval) WithTrace() *Eval {
	c := *e
	c.trace = newTrace(true, e.trace)

	return &c
}

// Recorded returns e for readers of its trace: it looks values up there, and evaluates nothing. An expression that was
// not evaluated has an error of which IsNotEvaluated is true.
func (e *Eval) Recorded() *Eval {
	c := e.Fork()
	c.locals = map[string]localValue{} // those of a stage that gathered are in the trace only
	c.isRecord = true

	return c
}

func (t *trace) add(x hclsyntax.Expression, s step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps[x] = append(t.steps[x], s)
}

// find returns the last evaluation of an expression with an element of for_each. A part of a loop that had several
// values in it has the error of severalValues.
func (t *trace) find(x hclsyntax.Expression, each cty.Value) (found step, ok bool) {
	if t == nil {
		return step{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()

	for _, s := range slices.Backward(t.steps[x]) {
		used, hasEach := rootOf(s.names).Variables["each"]
		switch {
		case hasEach && !isSameElement(used, each):
		case !t.isFull:
			return s, true
		case !ok:
			found, ok = s, true
		case rootOf(s.names) == rootOf(found.names) && !s.v.RawEquals(found.v): // of one evaluation of the whole
			found.v, found.diags = missingValue(x, severalValues)
		}
	}
	if !ok {
		return t.below.find(x, each)
	}

	return found, true
}

// isSameElement reports whether two values of each are of one element of a collection: its key names it.
func isSameElement(a, b cty.Value) bool {
	return b != cty.NilVal && a.GetAttr("key").RawEquals(b.GetAttr("key"))
}

func rootOf(names *hcl.EvalContext) *hcl.EvalContext {
	for names.Parent() != nil {
		names = names.Parent()
	}

	return names
}

// missing is why a trace does not have the value of an expression.
type missing string

const (
	notEvaluated  missing = "not evaluated"
	severalValues missing = "several values"
)

// DiagnosticCode implements origin.Coded.
func (missing) DiagnosticCode() fault.Code { return fault.Evaluation }

// IsNotEvaluated reports whether a diagnostic is about an expression that the run did not evaluate.
func IsNotEvaluated(d *hcl.Diagnostic) bool { return WhyMissing(d) == string(notEvaluated) }

// WhyMissing returns why a trace does not have a value, in words; "" for a diagnostic of an evaluation.
func WhyMissing(d *hcl.Diagnostic) string {
	why, _ := d.Extra.(missing)
	return string(why)
}

func missingValue(x hclsyntax.Expression, why missing) (cty.Value, hcl.Diagnostics) {
	d := origin.Error(fault.Evaluation, x.Range(), "No value is recorded", "The record has: %s.", why)
	d.Extra = why

	return cty.DynamicVal, hcl.Diagnostics{d}
}

// recorded returns the value of an expression from the trace.
func (e *Eval) recorded(x hclsyntax.Expression, each cty.Value) (cty.Value, hcl.Diagnostics) {
	if s, ok := e.trace.find(x, each); ok {
		return s.v, s.diags
	}

	return missingValue(x, notEvaluated)
}

// traced is a copy of an expression whose parts are counted, and traced if there is a trace.
type traced struct {
	hclsyntax.Expression
	of    hclsyntax.Expression
	trace *trace // nil: it is not recorded
	meter *meter // nil: it is not counted
}

// Value evaluates the expression and records the result.
func (x traced) Value(names *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	x.meter.count(x.of)
	v, diags := x.Expression.Value(names)
	for _, d := range diags {
		if part, isTraced := d.Expression.(traced); isTraced {
			d.Expression = part.of
		} else if d.Expression == hcl.Expression(x.Expression) {
			d.Expression = x.of
		}
	}
	if x.trace != nil {
		x.trace.add(x.of, step{v, diags, names})
	}

	return v, diags
}

// UnwrapExpression returns the expression, for a key of an object that is a name.
func (x traced) UnwrapExpression() hcl.Expression { return x.of }

// follow returns an expression that counts itself and its parts, and records them in a trace that is not nil.
func (t *trace) follow(x hclsyntax.Expression, m *meter) hclsyntax.Expression {
	if _, isElement := x.(*hclsyntax.AnonSymbolExpr); isElement { // a splat sets it by its address
		return x
	}
	if of, isTraced := x.(traced); isTraced { // of followBranches
		followed, _ := t.follow(of.Expression, m).(traced)
		followed.of, followed.trace = of.of, of.trace
		return followed
	}
	c := reflect.New(reflect.TypeOf(x).Elem())
	c.Elem().Set(reflect.ValueOf(x).Elem())
	t.followParts(c.Elem(), m)

	return traced{c.Interface().(hclsyntax.Expression), x, t, m}
}

// followParts replaces the expressions in a copied one.
func (t *trace) followParts(v reflect.Value, m *meter) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.CanSet() { // a field that is not exported, such as what an index is of
			return
		}
		if x, ok := v.Interface().(hclsyntax.Expression); ok {
			v.Set(reflect.ValueOf(t.follow(x, m)))
		}
	case reflect.Slice:
		if v.CanSet() && !v.IsNil() {
			c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(c, v)
			v.Set(c)
			for i := range v.Len() {
				t.followParts(v.Index(i), m)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			t.followParts(v.Field(i), m)
		}
	}
}

// followBranches returns an expression that records what findItem asks for: conditions, the arguments of merge, and
// keys that are not literal. In loops and in arguments of other functions it records nothing.
func (t *trace) followBranches(x hclsyntax.Expression) hclsyntax.Expression {
	switch x := x.(type) {
	case *hclsyntax.ObjectConsKeyExpr:
		return traced{Expression: x, of: x, trace: t}
	case *hclsyntax.ParenthesesExpr:
		c := *x
		c.Expression = t.followBranches(x.Expression)
		return traced{Expression: &c, of: x, trace: t}
	case *hclsyntax.ConditionalExpr:
		c := *x
		c.Condition = traced{Expression: x.Condition, of: x.Condition, trace: t}
		c.TrueResult = t.followBranches(x.TrueResult)
		c.FalseResult = t.followBranches(x.FalseResult)
		return traced{Expression: &c, of: x, trace: t}
	case *hclsyntax.TupleConsExpr:
		c := *x
		c.Exprs = slices.Clone(x.Exprs)
		for i, element := range x.Exprs {
			c.Exprs[i] = t.followBranches(element)
		}
		return traced{Expression: &c, of: x, trace: t}
	case *hclsyntax.ObjectConsExpr:
		c := *x
		c.Items = slices.Clone(x.Items)
		for i, item := range x.Items {
			c.Items[i].KeyExpr = t.followBranches(item.KeyExpr)
			c.Items[i].ValueExpr = t.followBranches(item.ValueExpr)
		}
		return traced{Expression: &c, of: x, trace: t}
	case *hclsyntax.FunctionCallExpr:
		if x.Name == "merge" {
			c := *x
			c.Args = slices.Clone(x.Args)
			for i, arg := range x.Args {
				c.Args[i] = traced{Expression: t.followBranches(arg), of: arg, trace: t}
			}
			return traced{Expression: &c, of: x, trace: t}
		}
	}

	return x
}
