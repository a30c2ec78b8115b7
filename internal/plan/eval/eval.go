// Package eval gives a site's expressions their values, from the answers of a tape.Source, or with everything
// outside unknown when a site is checked. An Eval, and those made of it by With and WithNode, belong to one
// goroutine; Fork makes one for another goroutine. The package must not read anything but through the Source, and
// must not change the site.
package eval

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
)

// Eval is the scope of one run: variables and the stages' outputs so far.
type Eval struct {
	site   *lang.Site
	source tape.Source // nil in check mode, where files are unknown and credentials exist
	ctx    context.Context
	redact func(string) string

	declared map[string]map[string]bool // see listDeclared; not changed

	index   map[string]int // of a stage's address in outputs
	vars    map[string]cty.Value
	outputs []cty.Value      // in the order of the site's stages; cty.NilVal: none yet. Copied before it is changed.
	node    func() cty.Value // of `node`, which is made at its first use
	// reserved replaces node.reserved in some attributes, see WithReserved.
	reserved cty.Value
	names    map[string]cty.Value // further roots, of expressions outside of the site; see Outside

	given       map[string]string     // the source of each variable's value from outside
	locals      map[string]localValue // shared with the Evals that With makes
	reached     map[string]Reached
	evaluating  map[string]bool // locals
	funcs       map[string]function.Function
	keys        map[*hclsyntax.ObjectConsExpr]keyIndex
	unsupported *[]*hcl.Diagnostic // attributes that no machine has
	trace       *trace
	isRecord    bool // see Recorded
	isPartial   bool // values may be unknown: in a check, or where some questions are not asked
	isBounded   bool // see WithOuterLimits
}

type localValue struct {
	v     cty.Value
	diags hcl.Diagnostics
}

// New starts a run over a site. A nil source is check mode: nothing outside is known.
func New(ctx context.Context, s *lang.Site, source tape.Source) *Eval {
	index := map[string]int{}
	for n, i := range s.Stages {
		index[i.Addr()] = n
	}

	redactor := sync.OnceValue(secret.NewRedactor) // most runs have one of their own

	return &Eval{
		site:        s,
		source:      source,
		ctx:         ctx,
		redact:      func(s string) string { return redactor().String(s) },
		declared:    listDeclared(s),
		index:       index,
		vars:        map[string]cty.Value{},
		outputs:     make([]cty.Value, len(s.Stages)),
		node:        func() cty.Value { return cty.DynamicVal },
		given:       map[string]string{},
		locals:      map[string]localValue{},
		reached:     map[string]Reached{},
		evaluating:  map[string]bool{},
		keys:        map[*hclsyntax.ObjectConsExpr]keyIndex{},
		unsupported: new([]*hcl.Diagnostic),
		trace:       newTrace(false, nil),
		isPartial:   source == nil,
	}
}

// Partial returns e for a run in which values may be unknown although there is a machine.
func (e *Eval) Partial() *Eval {
	e.isPartial = true
	return e
}

// WithOuterLimits returns e for a caller that bounds time and memory of all that it evaluates, as boot does for each
// step: e counts no parts of expressions then, unless it traces them.
func (e *Eval) WithOuterLimits() *Eval {
	e.isBounded = true
	return e
}

// IsPartial reports whether values may be unknown: in a check, or after Partial.
func (e *Eval) IsPartial() bool { return e.isPartial }

// WithRedactor returns e with a function that hides secrets in texts that are shown. nil changes nothing: then only
// texts that look like a secret are hidden.
func (e *Eval) WithRedactor(redact func(string) string) *Eval {
	if redact != nil {
		e.redact = redact
	}
	return e
}

// Redact hides secrets in a text, which must not have been cut.
func (e *Eval) Redact(s string) string { return e.redact(s) }

// Checking reports whether this run checks a site without a machine.
func (e *Eval) Checking() bool { return e.source == nil }

// AskContext returns the context of this run's questions.
func (e *Eval) AskContext() context.Context { return e.ctx }

// With returns e with further outputs of stages, by address.
func (e *Eval) With(outputs map[string]cty.Value) *Eval {
	c := *e
	c.outputs = slices.Clone(e.outputs)
	for addr, v := range outputs {
		c.outputs[e.index[addr]] = v
	}

	return &c
}

// WithNode returns e for render stages, which see node.*. Locals that refer to the node are evaluated again.
func (e *Eval) WithNode(v cty.Value) *Eval {
	return e.WithLazyNode(func() cty.Value { return v })
}

// WithLazyNode is WithNode with a function that makes the value when an expression needs it: most sites do not refer to
// the node. Goroutines may call it at the same time.
func (e *Eval) WithLazyNode(node func() cty.Value) *Eval {
	c := *e
	c.node, c.locals = node, maps.Clone(e.locals)
	maps.DeleteFunc(c.locals, func(name string, _ localValue) bool {
		return e.Reach(e.site.Locals[name].Expr).Node
	})

	return &c
}

// WithReserved returns e with a value of node.reserved for attributes with SeesReserved; cty.NilVal: that of the node.
func (e *Eval) WithReserved(v cty.Value) *Eval {
	c := *e
	c.reserved = v

	return &c
}

// withOwnReserved returns e with that value in its node.
func (e *Eval) withOwnReserved() *Eval {
	if e.reserved == cty.NilVal {
		return e
	}
	node := e.node()
	if !node.IsKnown() || !node.Type().IsObjectType() {
		return e
	}
	m := node.AsValueMap()
	m["reserved"] = e.reserved

	return e.WithNode(cty.ObjectVal(m))
}

func (e *Eval) Node() cty.Value { return e.node() }

// Fork returns e for another goroutine.
func (e *Eval) Fork() *Eval {
	c := *e
	c.vars = maps.Clone(e.vars)
	c.locals = maps.Clone(e.locals)
	c.reached = maps.Clone(e.reached)
	c.keys = maps.Clone(e.keys)
	c.evaluating = map[string]bool{}
	c.funcs = nil
	unsupported := slices.Clone(*e.unsupported)
	c.unsupported = &unsupported

	return &c
}

// Output returns a stage's output, if the stage has one by now.
func (e *Eval) Output(addr string) (cty.Value, bool) {
	n, ok := e.index[addr]
	if !ok || e.outputs[n] == cty.NilVal {
		return cty.NilVal, false
	}

	return e.outputs[n], true
}

// stageObject returns `stage` for references to it. It has only the outputs that they name: a site may have hundreds of
// stages, and each has an output of its own. It has all where a reference names no stage, or one without an output.
func (e *Eval) stageObject(references []hcl.Traversal) cty.Value {
	var named []int
	for _, reference := range references {
		n, isNamed := e.findOutput(reference)
		if !isNamed {
			named = slices.Collect(maps.Values(e.index))
			break
		}
		named = append(named, n)
	}

	types := map[string]map[string]cty.Value{}
	for _, n := range named {
		i := e.site.Stages[n]
		if e.outputs[n] == cty.NilVal {
			continue
		}
		if types[i.Type] == nil {
			types[i.Type] = map[string]cty.Value{}
		}
		types[i.Type][i.Name] = e.outputs[n]
	}

	objects := map[string]cty.Value{}
	for name, outputs := range types {
		objects[name] = cty.ObjectVal(outputs)
	}

	return cty.ObjectVal(objects)
}

// findOutput returns the position of the output that a reference to stage.TYPE.NAME is to.
func (e *Eval) findOutput(reference hcl.Traversal) (n int, isNamed bool) {
	n, isStage := e.index[strings.TrimPrefix(nameOf(reference), "stage.")]

	return n, isStage && e.outputs[n] != cty.NilVal
}

// Local evaluates a local at its first use. Each place that uses it reports its errors. Its size is bounded, so that
// locals that use each other cannot grow without limit.
func (e *Eval) Local(name string) (cty.Value, hcl.Diagnostics) {
	if r, ok := e.locals[name]; ok {
		return r.v, r.diags
	}

	local := e.site.Locals[name]
	if local == nil || e.evaluating[name] { // References refuses both
		return cty.DynamicVal, nil
	}

	e.evaluating[name] = true
	v, diags := e.Value(local.Expr, cty.NilVal)
	delete(e.evaluating, name)

	_, isReference := value.Unwrap(local.Expr).(*hclsyntax.ScopeTraversalExpr)
	if !isReference && !diags.HasErrors() {
		if excess := describeExcess(v); excess != "" {
			diags = append(
				diags,
				origin.Error(fault.Limit, local.Expr.Range(), "This value is too large",
					"It has %s.", excess),
			)
		}
	}
	if diags.HasErrors() {
		v = cty.DynamicVal
	}
	e.locals[name] = localValue{v, diags}

	return v, diags
}

// Context returns the scope of one expression. It evaluates only the locals that the expression names.
func (e *Eval) Context(x hclsyntax.Expression, each cty.Value) (*hcl.EvalContext, hcl.Diagnostics) {
	if s, ok := e.trace.find(x, each); e.isRecord && ok {
		return rootOf(s.names), nil
	}

	var diags hcl.Diagnostics
	variables := map[string]cty.Value{}
	var locals map[string]cty.Value
	var stages []hcl.Traversal

	for _, reference := range e.site.MentionsOf(x).References {
		name, _, hasName := findSecondName(reference)
		switch reference.RootName() {
		case "var":
			variables["var"] = cty.ObjectVal(e.vars)
		case "local":
			if locals == nil {
				locals = map[string]cty.Value{}
			}
			if _, ok := locals[name]; ok || !hasName {
				continue
			}
			v, d := e.Local(name)
			locals[name] = v
			diags = append(diags, e.addUse(d, reference, name)...)
		case "stage":
			stages = append(stages, reference)
		case "node":
			variables["node"] = e.node()
		case "each":
			if each != cty.NilVal {
				variables["each"] = each
			}
		default:
			if v, ok := e.names[reference.RootName()]; ok {
				variables[reference.RootName()] = v
			}
		}
	}
	if locals != nil {
		variables["local"] = cty.ObjectVal(locals)
	}
	if len(stages) > 0 {
		variables["stage"] = e.stageObject(stages)
	}

	return &hcl.EvalContext{Variables: variables, Functions: e.Functions()}, diags
}

// addUse adds the place of the first use to the diagnostics of a local, so that all uses report the same ones. Their
// own places stay, because the local has to change.
func (e *Eval) addUse(diags hcl.Diagnostics, reference hcl.Traversal, name string) hcl.Diagnostics {
	use := reference[:min(2, len(reference))].SourceRange()
	at := e.site.Locals[name].Expr.Range()
	out := make(hcl.Diagnostics, 0, len(diags))
	for _, d := range diags {
		c := *d
		if d.Subject == nil {
			c.Subject = &at
		}
		if !strings.Contains(d.Detail, inLocal) {
			c.Detail = fmt.Sprintf("%s%s%s, used at %s.", d.Detail, inLocal, name, origin.Place(use))
		}
		out = append(out, &c)
	}
	e.locals[name] = localValue{e.locals[name].v, out}

	return out
}

// inLocal begins the sentence of addUse.
const inLocal = " It is in local."

// orNull ends a hint, and checkFirst is one.
const (
	orNull     = "write try(…, null)."
	checkFirst = "Check first: length(LIST) > 0, or " + orNull
)

// Value evaluates one expression.
func (e *Eval) Value(x hclsyntax.Expression, each cty.Value) (cty.Value, hcl.Diagnostics) {
	if e.isRecord {
		return e.recorded(x, each)
	}

	ctx, diags := e.Context(x, each)
	if diags.HasErrors() {
		e.trace.add(x, step{cty.DynamicVal, diags, ctx})
		return cty.DynamicVal, diags
	}

	v, more := e.evaluateIn(x, ctx, e.Reach(x).Secret)
	for _, d := range more {
		if hint := e.suggestNext(d); !strings.Contains(d.Detail, hint) {
			d.Detail += " " + hint
		}
	}
	diags = append(diags, more...)
	if more.HasErrors() { // it may have failed before x itself was evaluated
		e.trace.add(x, step{v, diags, ctx})
	}

	return v, diags
}

// keyMissing is what HCL reports for an index that a map or a list does not have.
const keyMissing = "The given key does not identify an element in this collection value."

// differentTypes is the summary of HCL for a choice between values of different types.
const differentTypes = "Inconsistent conditional result types"

// suggestNext returns the next step for a message of HCL about an expression; "" if it has one.
func (e *Eval) suggestNext(d *hcl.Diagnostic) string {
	isIndex := d.Summary == "Invalid index"
	switch {
	case isIndex && strings.Contains(d.Detail, "a number is required"):
		return fmt.Sprintf("A list has numbers, not names: where(LIST, { %s = %q })[0] is the element of a name.",
			nameOfElements(d), "NAME")
	case isIndex && d.Detail == "This value does not have any indices.":
		return "It is one text, number or bool: write it without an index."
	case isIndex && d.Detail == keyMissing:
		return cmp.Or(e.suggestAttribute(d), checkFirst)
	case isIndex: // HCL does not know that the next machine may have fewer elements
		return cmp.Or(suggestSplit(d), checkFirst)
	case d.Summary == "Missing map element", d.Summary == "Unsupported attribute":
		return e.suggestAttribute(d)
	case d.Summary == differentTypes:
		return "Write both in the same form: two texts, or two lists."
	case strings.Contains(d.Detail, "string required, but have list"),
		strings.Contains(d.Detail, "string required, but have tuple"):
		if d.Summary == "Invalid function argument" {
			return "LIST[0] is its first element, and [for x in LIST : F(x)] calls the function for each; " +
				"anytrue([for x in LIST : F(x)]) is true if one of them is."
		}

		return "LIST[0] is its first element, [for x in LIST : …] does it for each. In a text, write length(LIST) or " +
			"join(\"-\", LIST)."
	case strings.Contains(d.Detail, "string required, but have map"),
		strings.Contains(d.Detail, "string required, but have object"):
		return "Write which of its values: MAP[\"KEY\"], or [for k, v in MAP : …] for each."
	case d.Summary == "Invalid operand" && strings.Contains(d.Detail, "a number is required"):
		return e.suggestNumber(d)
	case d.Summary == "Invalid operand" && strings.Contains(d.Detail, "a bool is required"):
		return "The operators && and || take true and false, as of a comparison. A choice is written CONDITION " +
			"? VALUE : OTHER, and the first value that is not null is coalesce(A, B)."
	case d.Summary == "Not enough function arguments", d.Summary == "Too many function arguments":
		return e.suggestCall(d)
	case d.Summary == "Invalid function argument" && strings.HasSuffix(d.Detail, ": a number is required."):
		return "A number is written without quotes; tonumber(TEXT) is that of a text."
	case strings.Contains(d.Detail, "number required, but have tuple"),
		strings.Contains(d.Detail, "number required, but have list"),
		strings.Contains(d.Detail, "number required, but have set"):
		return "The elements of a list are passed with three dots: max(LIST...)."
	}

	return ""
}

// evaluateIn evaluates x, and CheckSecrets if it may use a secret: that looks through all values that x refers to. It
// counts the parts that it evaluates, unless a caller bounds them. A panic of a library is an error.
func (e *Eval) evaluateIn(
	x hclsyntax.Expression, ctx *hcl.EvalContext, mayUseSecret bool,
) (v cty.Value, diags hcl.Diagnostics) {
	var m *meter
	whole := x
	defer func() {
		r := recover()
		switch {
		case m.excess() != "": // also where try() has caught it
			v, diags = cty.DynamicVal, hcl.Diagnostics{m.report(whole)}
		case r != nil:
			v = cty.DynamicVal
			diags = hcl.Diagnostics{
				origin.Error(fault.Internal, whole.Range(), "This expression cannot be evaluated",
					"Its evaluation failed unexpectedly (%v). Please report this.", r),
			}
		}
	}()

	switch {
	case e.trace.isFull:
		m = newMeter()
		x = e.trace.follow(x, m)
	case !e.isBounded:
		m = newMeter()
		if e.site.MentionsOf(x).Branches {
			x = e.trace.followBranches(x)
		}
		var noTrace *trace
		x = noTrace.follow(x, m)
	case e.site.MentionsOf(x).Branches:
		x = e.trace.followBranches(x)
	}
	if !mayUseSecret {
		return x.Value(ctx)
	}

	if m != nil { // before CheckSecrets, which evaluates each loop again
		v, diags = x.Value(ctx)
		if m.excess() != "" {
			return v, diags
		}
	}
	if secrets := functions.CheckSecrets(whole, ctx); secrets.HasErrors() {
		return cty.DynamicVal, secrets
	}
	if m != nil {
		return v, diags
	}

	return x.Value(ctx)
}

// Unsupported returns the attributes that no machine has and that try() and can() hide.
func (e *Eval) Unsupported() hcl.Diagnostics {
	var out hcl.Diagnostics
	seen := map[string]bool{}
	for _, d := range *e.unsupported {
		if d.Subject == nil || seen[d.Subject.String()] {
			continue
		}
		seen[d.Subject.String()] = true
		out = append(out, origin.Error(fault.Reference, *d.Subject, d.Summary,
			"%s No machine has this attribute, so try() and can() do not excuse it.", d.Detail))
	}

	return out
}

// findSecondName returns the name after the root of a reference, as NAME in var.NAME or local["NAME"].
func findSecondName(reference hcl.Traversal) (name string, at hcl.Range, ok bool) {
	if len(reference) < 2 {
		return "", reference.SourceRange(), false
	}
	switch step := reference[1].(type) {
	case hcl.TraverseAttr:
		return step.Name, step.SrcRange, true
	case hcl.TraverseIndex:
		if value.IsText(step.Key) {
			return step.Key.AsString(), step.SrcRange, true
		}
	}

	return "", reference.SourceRange(), false
}

func sortedUnique(s []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(s)))
}
