package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// Scope is how the attributes of one block are evaluated. It implements schema.Evaluator.
type Scope struct {
	e    *Eval
	each cty.Value
	only schema.Phase         // attributes of a later phase are unknown; 0: all are evaluated
	said schema.Phase         // what is wrong with attributes of that phase is said; 0: of none
	soft bool                 // an error that a null fact causes is a warning (label, taint)
	from hclsyntax.Expression // of for_each: what each stands for
	when hclsyntax.Expression
	addr string
}

// Scope makes the scope of a block. Addr is shown as the owner of origins.
func (e *Eval) Scope(addr string) Scope { return Scope{e: e, addr: addr, each: cty.NilVal} }

// Soft makes errors that a null fact causes warnings.
func (s Scope) Soft() Scope { s.soft = true; return s }

// Only evaluates attributes of that phase, and leaves all others unknown.
func (s Scope) Only(p schema.Phase) Scope { s.only = p; return s }

// After leaves out what Only of that phase has found about the same block.
func (s Scope) After(p schema.Phase) Scope { s.said = p; return s }

// Said implements schema.Quiet.
func (s Scope) Said(spec schema.Spec) bool { return s.said != 0 && spec.Phase == s.said }

// With gives the scope an each.
func (s Scope) With(key string, v cty.Value) Scope {
	s.each = cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(key), "value": v})
	return s
}

// Under remembers the condition that the block is there for, for origins.
func (s Scope) Under(when hclsyntax.Expression) Scope { s.when = when; return s }

// Value implements schema.Evaluator.
func (s Scope) Value(spec schema.Spec, x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	if s.only != 0 && spec.Phase != s.only {
		return cty.UnknownVal(spec.Type), nil
	}
	if o, ok := object(x); ok && spec.Items && s.soft {
		return s.items(spec, o)
	}
	v, diags := s.e.Value(x, s.each)
	if diags.HasErrors() {
		return cty.UnknownVal(spec.Type), s.mild(diags, x)
	}
	return v, diags
}

// items evaluates an object literal item by item: one that fails for a null fact is left out, with a warning.
func (s Scope) items(spec schema.Spec, o *hclsyntax.ObjectConsExpr) (cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	out := map[string]cty.Value{}
	unknown := false
	var unread []string // of keys
	for _, it := range o.Items {
		k, d := s.e.Value(it.KeyExpr, s.each)
		if !d.HasErrors() && k.IsKnown() && (k.IsNull() || k.Type() != cty.String && k.Type() != cty.Number && k.Type() != cty.Bool) {
			d = append(d, origin.Error(fault.WrongType, it.KeyExpr.Range(), "Wrong key", "A key must be a string."))
		}
		var v cty.Value
		if !d.HasErrors() {
			var d2 hcl.Diagnostics
			v, d2 = s.e.Value(it.ValueExpr, s.each)
			d = append(d, d2...)
		}
		if d.HasErrors() {
			d = s.mild(d, it.KeyExpr, it.ValueExpr)
			d = Soften(d)
			if diags = append(diags, d...); d.HasErrors() {
				unknown = true
			}
			continue
		}
		diags = append(diags, d...)
		switch name, ok := keyText(k); {
		case !ok:
			unknown, unread = true, append(unread, value.Questions(k)...)
		default:
			if _, dup := out[name]; dup {
				diags = append(diags, origin.Error(fault.Duplicate, it.KeyExpr.Range(), fmt.Sprintf("Key %q is there twice", name), "Remove one of them."))
			}
			out[name] = v
		}
	}
	if unknown {
		return value.Because(cty.UnknownVal(spec.Type), unread), diags
	}

	return cty.ObjectVal(out), diags
}

func keyText(k cty.Value) (string, bool) {
	u, _, _ := value.Plain(k)
	if !u.IsKnown() || u.IsNull() {
		return "", false
	}
	switch u.Type() {
	case cty.String:
		return u.AsString(), true
	case cty.Number:
		return u.AsBigFloat().Text('f', -1), true
	case cty.Bool:
		return fmt.Sprint(u.True()), true
	}
	return "", false
}

// mild gives errors their code, and marks those that a null fact caused: where the scope is soft they are
// warnings in the end.
func (s Scope) mild(ds hcl.Diagnostics, xs ...hclsyntax.Expression) hcl.Diagnostics {
	facts := s.e.Reach(append(xs, s.eachOf(xs...))...).Facts
	var out hcl.Diagnostics
	for _, d := range ds {
		if d.Severity == hcl.DiagError && facts && value.NullCause(d) {
			out = append(out, nullFact(d, s.soft))
			continue
		}
		out = append(out, d)
	}
	return named(out)
}

// eachOf is what for_each iterates over, if one of the expressions uses each; else nil.
func (s Scope) eachOf(xs ...hclsyntax.Expression) hclsyntax.Expression {
	for _, x := range xs {
		for _, tr := range x.Variables() {
			if tr.RootName() == "each" {
				return s.from
			}
		}
	}
	return nil
}

func nullFact(d *hcl.Diagnostic, soft bool) *hcl.Diagnostic {
	c := *d
	c.Detail = d.Detail + " A fact that this expression uses is null on this machine: nobody could tell it. Write what holds then, as in: x == null ? null : upper(x)."
	if soft {
		c.Detail += " What depends on it is left out, and the boot is degraded."
	}
	c.Extra = softExtra{soft: soft}
	return &c
}

// softExtra marks an error that a null fact caused.
type softExtra struct{ soft bool }

// DiagnosticCode implements origin.Coded.
func (softExtra) DiagnosticCode() fault.Code { return fault.NullFact }

// LeftOut says whether a diagnostic is about what a label or a taint left out for a null fact, softened or not.
func LeftOut(d *hcl.Diagnostic) bool {
	x, ok := d.Extra.(softExtra)
	return ok && x.soft
}

// AllSoft says whether every error was caused by a null fact in a scope that forgives it.
func AllSoft(ds hcl.Diagnostics) bool {
	for _, d := range ds {
		if d.Severity == hcl.DiagError {
			if !LeftOut(d) {
				return false
			}
		}
	}
	return true
}

// Soften turns the errors that AllSoft speaks of into warnings.
func Soften(ds hcl.Diagnostics) hcl.Diagnostics {
	out := make(hcl.Diagnostics, len(ds))
	for i, d := range ds {
		out[i] = d
		if LeftOut(d) && d.Severity == hcl.DiagError {
			c := *d
			c.Severity = hcl.DiagWarning
			out[i] = &c
		}
	}
	return out
}

// Item implements schema.Evaluator: through parentheses, locals, merge, and the branch that is taken.
func (s Scope) Item(x hclsyntax.Expression, key string) hclsyntax.Expression {
	_, v := s.e.item(x, key, s.each, 0)
	return v
}

// Key implements schema.Keyer.
func (s Scope) Key(x hclsyntax.Expression, key string) hclsyntax.Expression {
	k, _ := s.e.item(x, key, s.each, 0)
	return k
}

// item finds key and value of one item; the key is nil where no literal has it.
func (e *Eval) item(x hclsyntax.Expression, key string, each cty.Value, depth int) (k, v hclsyntax.Expression) {
	if depth > 16 {
		return nil, nil
	}
	if in, ok := unwrap(x); ok {
		return e.item(in, key, each, depth+1)
	}
	switch x := x.(type) {
	case *hclsyntax.ObjectConsExpr:
		idx := e.index(x)
		for _, i := range idx.open { // from the end: of two equal keys the last one counts
			if v, d := e.Value(x.Items[i].KeyExpr, each); !d.HasErrors() {
				if name, ok := keyText(v); ok && name == key {
					return x.Items[i].KeyExpr, x.Items[i].ValueExpr
				}
			}
		}
		if i, ok := idx.at[key]; ok {
			return x.Items[i].KeyExpr, x.Items[i].ValueExpr
		}
	case *hclsyntax.FunctionCallExpr:
		if x.Name != "merge" {
			return nil, nil
		}
		for i := len(x.Args) - 1; i >= 0; i-- {
			if k, v := e.item(x.Args[i], key, each, depth+1); v != nil {
				return k, v
			}
			if v, d := e.Value(x.Args[i], each); !d.HasErrors() && has(v, key) {
				return nil, x.Args[i]
			}
		}
	case *hclsyntax.ConditionalExpr:
		if v, d := e.Value(x.Condition, each); !d.HasErrors() {
			u, _, _ := value.Plain(v)
			if b, err := convert.Convert(u, cty.Bool); err == nil && b.IsKnown() && !b.IsNull() { // as HCL does
				if b.True() {
					return e.item(x.TrueResult, key, each, depth+1)
				}
				return e.item(x.FalseResult, key, each, depth+1)
			}
		}
	case *hclsyntax.ScopeTraversalExpr:
		if name, _, ok := second(x.Traversal); ok && x.Traversal.RootName() == "local" && len(x.Traversal) == 2 && e.site.Locals[name] != nil {
			return e.item(e.site.Locals[name].Expr, key, each, depth+1)
		}
	}
	return nil, nil
}

// objectIndex is where the keys of an object literal stand: those that are written as they are, and the others.
type objectIndex struct {
	at   map[string]int
	open []int // from the end
}

// index is built once an object: a large one is asked for each of its keys.
func (e *Eval) index(x *hclsyntax.ObjectConsExpr) objectIndex {
	if i, ok := e.indexes[x]; ok {
		return i
	}
	out := objectIndex{at: map[string]int{}}
	for i := len(x.Items) - 1; i >= 0; i-- {
		if name, ok := literalKey(x.Items[i].KeyExpr); ok {
			if _, later := out.at[name]; !later {
				out.at[name] = i
			}
			continue
		}
		out.open = append(out.open, i)
	}
	e.indexes[x] = out
	return out
}

// literalKey is a key that is written as it is, a name or a text without interpolation.
func literalKey(x hclsyntax.Expression) (string, bool) {
	k, ok := x.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return "", false
	}
	if name := hcl.ExprAsKeyword(k.Wrapped); name != "" && !k.ForceNonLiteral {
		return name, true
	}
	t, ok := value.Unwrap(k.Wrapped).(*hclsyntax.TemplateExpr)
	if !ok || !t.IsStringLiteral() {
		return "", false
	}
	v, d := t.Value(nil)
	return v.AsString(), !d.HasErrors()
}

func has(v cty.Value, key string) bool {
	u, _, _ := value.Plain(v)
	if !u.IsKnown() || u.IsNull() {
		return false
	}
	if u.Type().IsObjectType() {
		return u.Type().HasAttribute(key)
	}
	return u.Type().IsMapType() && u.HasIndex(cty.StringVal(key)).True()
}

func unwrap(x hclsyntax.Expression) (hclsyntax.Expression, bool) {
	if in := value.Unwrap(x); in != x {
		return in, true
	}
	switch x := x.(type) {
	case *hclsyntax.ObjectConsKeyExpr:
		return x.Wrapped, true
	case *hclsyntax.TemplateWrapExpr:
		return x.Wrapped, true
	}
	return nil, false
}

func object(x hclsyntax.Expression) (*hclsyntax.ObjectConsExpr, bool) {
	for {
		if o, ok := x.(*hclsyntax.ObjectConsExpr); ok {
			return o, true
		}
		in, ok := unwrap(x)
		if !ok {
			return nil, false
		}
		x = in
	}
}

// Expand implements schema.Evaluator for blocks with when and for_each.
func (s Scope) Expand(body *hclsyntax.Body) ([]schema.Copy, hcl.Diagnostics) {
	var when, forEach hclsyntax.Expression
	if a := body.Attributes["when"]; a != nil {
		when = a.Expr
	}
	if a := body.Attributes["for_each"]; a != nil {
		forEach = a.Expr
	}
	if s.only != 0 && s.e.Reach(when, forEach).Phase > s.only {
		// Whether it is there shows later. What it says for this phase is needed now.
		s.each = cty.DynamicVal
		return []schema.Copy{{Eval: s}}, nil
	}
	copies, diags := s.Copies(when, forEach)
	if s.said != 0 && s.e.Reach(when, forEach).Phase <= s.said {
		diags = nil
	}
	var out []schema.Copy
	for _, c := range copies.All {
		out = append(out, schema.Copy{Key: c.Key, Eval: c.Scope, Undecided: !copies.Known, Unread: copies.Unread})
	}

	return out, diags
}

// Copy is one instance of a block.
type Copy struct {
	Key   string
	Scope Scope
}

// Copies are the instances of a block.
type Copies struct {
	All    []Copy   // sorted by key
	Known  bool     // false: nothing tells whether or how often it is there
	Unread []string // the questions without an answer that it is not known for; nil in a check
}

// Copies says how often a block is there: not at all when `when` is false, once for each key of for_each, sorted.
// Where a condition or a collection is unknown there is one copy with an unknown element, so that its body is still
// checked.
func (s Scope) Copies(when, forEach hclsyntax.Expression) (Copies, hcl.Diagnostics) {
	out := Copies{Known: true}
	var diags hcl.Diagnostics
	if when != nil {
		c, d := s.condition("when", when)
		diags = append(diags, d...)
		if d.HasErrors() || c.sure && !c.ok {
			return out, diags
		}
		out.Known, out.Unread = c.sure, c.unread
		s = s.Under(when)
	}
	if forEach == nil {
		out.All = []Copy{{Scope: s}}
		return out, diags
	}

	all, d := s.collection(forEach)
	diags = append(diags, d...)
	if d.HasErrors() {
		return Copies{Known: true}, diags
	}
	if !all.Known {
		out.Known, out.Unread = false, append(out.Unread, all.Unread...)
	}
	out.All = all.All

	return out, diags
}

// collection is the part of Copies that for_each decides.
func (s Scope) collection(forEach hclsyntax.Expression) (Copies, hcl.Diagnostics) {
	refuse := func(diags hcl.Diagnostics, c fault.Code, summary, detail string, args ...any) (Copies, hcl.Diagnostics) {
		return Copies{Known: true}, append(diags, origin.Error(c, forEach.Range(), summary, detail, args...))
	}
	v, d := s.e.Value(forEach, s.each)
	diags := s.mild(d, forEach)
	if d.HasErrors() {
		return Copies{Known: true}, diags
	}
	s.from = forEach

	u, secret, unread := value.Plain(v)
	if u.IsKnown() && !v.IsMarked() {
		unread = nil // of its elements
	}
	if len(unread) > 0 { // a set of what is unread is known to be there, and no more
		u = cty.UnknownVal(u.Type())
		diags = append(diags, origin.NotRead(forEach.Range(), "for_each", unread))
	}
	if len(secret) > 0 {
		return refuse(diags, fault.Sensitive, "for_each depends on a secret",
			"How many there are would tell something of the secret. Use a value that is none.")
	}
	t := u.Type()
	if !collectionOfNamed(t) {
		return refuse(diags, fault.WrongType, "Wrong type for for_each", "A map, an object or a set of strings is needed, not %s: "+
			"copies need names. For a list: { for x in LIST : x.NAME => x } or toset(LIST).", schema.TypeName(t))
	}
	if u.IsKnown() && u.IsNull() {
		return refuse(diags, fault.WrongType, "for_each is null", "Write {} for none, or coalesce(x, {}).")
	}
	if !u.IsKnown() {
		return Copies{All: []Copy{{Scope: s.withUnknownEach(t)}}, Unread: unread}, diags
	}

	m := map[string]cty.Value{}
	for it := v.ElementIterator(); it.Next(); {
		k, x := it.Element()
		if t.IsSetType() {
			k = x
		}
		ku, _, _ := value.Plain(k)
		if !ku.IsKnown() || ku.IsNull() {
			return refuse(diags, fault.WrongType, "A key of for_each is null or unknown", "Copies need names.")
		}
		m[ku.AsString()] = x
	}
	out := Copies{Known: true}
	for _, k := range keys(m) {
		out.All = append(out.All, Copy{Key: k, Scope: s.With(k, m[k])})
	}

	return out, diags
}

// collectionOfNamed says whether each element of a type has a name; of an unknown type it may.
func collectionOfNamed(t cty.Type) bool {
	if t.IsSetType() {
		return t.ElementType() == cty.String || t.ElementType() == cty.DynamicPseudoType
	}

	return t == cty.DynamicPseudoType || t.IsMapType() || t.IsObjectType()
}

func (s Scope) withUnknownEach(t cty.Type) Scope {
	elem := cty.DynamicPseudoType
	if t.IsMapType() || t.IsSetType() {
		elem = t.ElementType()
	}
	s.each = cty.ObjectVal(map[string]cty.Value{"key": cty.UnknownVal(cty.String), "value": cty.UnknownVal(elem)})

	return s
}

// condition is a boolean that decides whether something is there.
type condition struct {
	ok, sure bool     // sure is false when it is unknown
	unread   []string // the questions without an answer that it is unknown for
}

func (s Scope) condition(name string, x hclsyntax.Expression) (condition, hcl.Diagnostics) {
	v, d := s.e.Value(x, s.each)
	if d.HasErrors() {
		return condition{}, s.mild(d, x)
	}
	u, secret, unread := value.Plain(v)
	if b, err := convert.Convert(u, cty.Bool); err == nil {
		u = b // "true" of a variable that is text, as in any condition
	}
	if u.IsKnown() {
		unread = nil
	}
	if len(unread) > 0 {
		d = append(d, origin.NotRead(x.Range(), name, unread))
	}
	unknown := condition{unread: unread}
	switch {
	case len(secret) > 0:
		d = append(d, origin.Error(fault.Sensitive, x.Range(), name+" depends on a secret", "Existence is no secret: can(credential(%q)).", secret[0]))
	case u.Type() == cty.DynamicPseudoType && !u.IsKnown():
		return unknown, d
	case u.Type() != cty.Bool:
		d = append(d, origin.Error(fault.WrongType, x.Range(), "Wrong type for "+name, "true or false is needed, not %s.", schema.TypeName(u.Type())))
	case !u.IsKnown():
		return unknown, d
	case u.IsNull():
		isNull := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: name + " is null", Detail: "true or false is needed.",
			Subject: x.Range().Ptr(), Expression: x, EvalContext: &hcl.EvalContext{}}
		d = append(d, s.mild(hcl.Diagnostics{isNull}, x)...)
	default:
		return condition{ok: u.True(), sure: true}, d
	}

	return unknown, d
}

// FactCaused says whether an error came from a null fact in a scope that does not forgive it.
func FactCaused(d *hcl.Diagnostic) bool {
	_, ok := d.Extra.(softExtra)
	return ok
}
