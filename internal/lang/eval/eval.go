// Package eval gives a site's expressions their values, over whatever the tape answers, or over nothing at all
// when a site is checked. It is pure: all that it knows of the outside comes through a world.Source. One goroutine
// uses an Eval, and those made of it by With and WithNode, at a time; Fork makes one for another goroutine.
package eval

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// Eval is the scope of one run: variables and the outputs so far. With makes the next one; what it remembers of
// locals is shared with that one.
type Eval struct {
	site  *site.Site
	ask   world.Source // nil: check mode, where files are unknown and credentials present
	ctx   context.Context
	at    map[string]int // of an address: its index in out
	vars  map[string]cty.Value
	out   []cty.Value // as the site's stages; cty.NilVal: none yet. Never written to.
	node  cty.Value
	stage cty.Value // the object that `stage` is, made at its first use

	memo        map[string]result
	depth       map[string]bool // locals being evaluated now
	funcs       map[string]function.Function
	indexes     map[*hclsyntax.ObjectConsExpr]objectIndex
	unsupported *[]*hcl.Diagnostic // what try and can met on an unknown machine
	redact      func(string) string
	unread      *[]string // questions that a recording was never asked, in the order of asking, also repeated
}

type result struct {
	v      cty.Value
	d      hcl.Diagnostics
	unread []string // what its evaluation asked, and a recording was never asked
}

// New starts a run over a site. With ask nil nothing outside is known (check mode).
func New(ctx context.Context, s *site.Site, ask world.Source) *Eval {
	at := map[string]int{}
	for n, i := range s.Stages {
		at[i.Addr()] = n
	}

	return &Eval{
		site: s, ask: ask, ctx: ctx, at: at, vars: map[string]cty.Value{}, out: make([]cty.Value, len(s.Stages)), node: cty.DynamicVal,
		memo: map[string]result{}, depth: map[string]bool{}, indexes: map[*hclsyntax.ObjectConsExpr]objectIndex{},
		unsupported: new([]*hcl.Diagnostic), unread: new([]string), redact: value.NewRedactor().String,
	}
}

// WithRedactor returns e with a function that hides secrets in texts that are shown. nil changes nothing: then only what
// looks like a secret is hidden.
func (e *Eval) WithRedactor(redact func(string) string) *Eval {
	if redact != nil {
		e.redact = redact
	}
	return e
}

// Redact hides secrets in a text, which must be whole.
func (e *Eval) Redact(s string) string { return e.redact(s) }

// Checking says whether there is no world behind this run.
func (e *Eval) Checking() bool { return e.ask == nil }

// With is e with further outputs of stages, by address, each of its declared type with state.
func (e *Eval) With(outputs map[string]cty.Value) *Eval {
	c := *e
	c.out, c.stage = slices.Clone(e.out), cty.NilVal
	for addr, v := range outputs {
		c.out[e.at[addr]] = v
	}

	return &c
}

// WithNode is e where render stages see node.*. Locals that reach the node are forgotten.
func (e *Eval) WithNode(v cty.Value) *Eval {
	c := *e
	c.node, c.memo = v, maps.Clone(e.memo)
	for name := range c.memo {
		if e.Reach(e.site.Locals[name].Expr).Node {
			delete(c.memo, name)
		}
	}

	return &c
}

// Fork is e for another goroutine, which shares nothing with it that either writes to.
func (e *Eval) Fork() *Eval {
	c := *e
	c.vars, c.memo, c.indexes, c.depth, c.funcs = maps.Clone(e.vars), maps.Clone(e.memo), maps.Clone(e.indexes), map[string]bool{}, nil
	found := slices.Clone(*e.unsupported)
	c.unsupported, c.unread = &found, new([]string)

	return &c
}

// Output is a stage's output so far.
func (e *Eval) Output(addr string) (cty.Value, bool) {
	n, ok := e.at[addr]
	if !ok || e.out[n] == cty.NilVal {
		return cty.NilVal, false
	}

	return e.out[n], true
}

func (e *Eval) stageObject() cty.Value {
	if e.stage != cty.NilVal {
		return e.stage
	}
	types := map[string]map[string]cty.Value{}
	for n, i := range e.site.Stages {
		if v := e.out[n]; v != cty.NilVal {
			if types[i.Type] == nil {
				types[i.Type] = map[string]cty.Value{}
			}
			types[i.Type][i.Name] = v
		}
	}
	m := map[string]cty.Value{}
	for k, x := range types {
		m[k] = cty.ObjectVal(x)
	}
	e.stage = cty.ObjectVal(m)
	return e.stage
}

// Local evaluates a local at its first use. Its error belongs to each place that uses it. What it gives is bounded,
// so that locals that use each other cannot grow without end.
func (e *Eval) Local(name string) (cty.Value, hcl.Diagnostics) {
	if r, ok := e.memo[name]; ok {
		*e.unread = append(*e.unread, r.unread...)
		return r.v, r.d
	}
	l := e.site.Locals[name]
	if l == nil || e.depth[name] { // both are refused by References, which runs first
		return cty.DynamicVal, nil
	}
	e.depth[name] = true
	before := len(*e.unread)
	v, d := e.Value(l.Expr, cty.NilVal)
	unread := slices.Compact(slices.Sorted(slices.Values((*e.unread)[before:])))
	delete(e.depth, name)
	if _, same := value.Unwrap(l.Expr).(*hclsyntax.ScopeTraversalExpr); !same && !d.HasErrors() {
		if what := tooLarge(v); what != "" {
			d = append(d, origin.Error(fault.Limit, l.Expr.Range(), "This value is too large",
				"It has %s.", what))
		}
	}
	if d.HasErrors() {
		v = cty.DynamicVal
	}
	e.memo[name] = result{v, d, unread}
	return v, d
}

// Context is the scope of one expression: only the locals that it names are evaluated.
func (e *Eval) Context(x hclsyntax.Expression, each cty.Value) (*hcl.EvalContext, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	c := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(e.vars)}, Functions: e.functions()}
	locals := map[string]cty.Value{}
	for _, tr := range x.Variables() {
		switch tr.RootName() {
		case "local":
			name, _, ok := second(tr)
			if _, done := locals[name]; !ok || done {
				continue
			}
			v, d := e.Local(name)
			locals[name] = v
			diags = append(diags, e.usedAt(tr, name, d)...)
		case "var":
			if name, _, ok := second(tr); ok {
				*e.unread = append(*e.unread, value.Questions(e.vars[name])...)
			}
		case "stage":
			c.Variables["stage"] = e.stageObject()
		case "node":
			c.Variables["node"] = e.node
		case "each":
			if each != cty.NilVal {
				c.Variables["each"] = each
			}
		}
	}
	c.Variables["local"] = cty.ObjectVal(locals)
	return c, diags
}

// usedAt moves what a local's evaluation says to the place that uses the local: the error belongs to each such place.
func (e *Eval) usedAt(tr hcl.Traversal, name string, ds hcl.Diagnostics) hcl.Diagnostics {
	out := make(hcl.Diagnostics, 0, len(ds))
	at := tr[:min(2, len(tr))].SourceRange()
	for _, d := range ds {
		c := *d
		where := e.site.Locals[name].Expr.Range()
		if d.Subject != nil {
			where = *d.Subject
		}
		if !strings.HasPrefix(d.Detail, "In local.") {
			c.Detail = fmt.Sprintf("In local.%s, at %s:%d:%d: %s", name, where.Filename, where.Start.Line, where.Start.Column, d.Detail)
		}
		c.Subject, c.Context = &at, nil
		out = append(out, &c)
	}
	return out
}

// Value evaluates one expression. If it, or a local that it uses, asks what a recording was never asked, and the value
// does not show that, as in [file(PATH), "b"][1], a warning does: with the answer the expression may fail.
func (e *Eval) Value(x hclsyntax.Expression, each cty.Value) (cty.Value, hcl.Diagnostics) {
	before := len(*e.unread)
	v, diags := e.evaluate(x, each)
	if diags.HasErrors() || len(*e.unread) == before {
		return v, diags
	}

	named := value.Questions(v)
	for _, d := range diags { // of a local
		if extra, ok := d.Extra.(origin.Extra); ok {
			named = append(named, extra.Unread...)
		}
	}
	hidden := slices.Compact(slices.Sorted(slices.Values((*e.unread)[before:])))
	hidden = slices.DeleteFunc(hidden, func(q string) bool { return slices.Contains(named, q) })
	if len(hidden) > 0 {
		diags = append(diags, origin.NotRead(x.Range(), "whether this expression works", hidden))
	}

	return v, diags
}

func (e *Eval) evaluate(x hclsyntax.Expression, each cty.Value) (cty.Value, hcl.Diagnostics) {
	c, diags := e.Context(x, each)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v, d := x.Value(c)
	for _, x := range d {
		if x.Summary == "Invalid index" && !strings.Contains(x.Detail, askFirst) { // HCL's words; it does not know that the next machine differs
			x.Detail += " " + askFirst
		}
	}
	return v, append(diags, d...)
}

const askFirst = "Ask first: `when = length(…) > 0`, or try(…, null)."

func second(tr hcl.Traversal) (name string, rng hcl.Range, ok bool) {
	if len(tr) < 2 {
		return "", tr.SourceRange(), false
	}
	switch s := tr[1].(type) {
	case hcl.TraverseAttr:
		return s.Name, s.SrcRange, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() && !s.Key.IsMarked() {
			return s.Key.AsString(), s.SrcRange, true
		}
	}
	return "", tr.SourceRange(), false
}

func (e *Eval) functions() map[string]function.Function {
	if e.funcs != nil {
		return e.funcs
	}
	var o value.Options
	if e.Checking() {
		o.OnUnsupported = func(d *hcl.Diagnostic) { *e.unsupported = append(*e.unsupported, d) }
	}
	e.funcs = value.FunctionsWith(o)
	e.funcs["file"] = e.reader(cty.String, func(path string) (cty.Value, error) {
		a, ans, err := world.File.Ask(e.ctx, e.ask, world.FileReq{Path: path})
		switch {
		case ans.Code() == fault.Unread:
			return e.unreadVal(cty.String, "file "+path), nil
		case ans.Code() == fault.Absent:
			return cty.NilVal, fmt.Errorf("there is no %s on this machine; put it into the image, or ask first: fileexists(%q)", path, path)
		case err != nil:
			return cty.NilVal, unread(path, ans)
		case value.HasPlaceholder(a.Text):
			return cty.NilVal, fmt.Errorf("%s holds U+E000 or U+E001, which prelet keeps for itself; remove them", path)
		}
		if !value.IsExact(a.Text) {
			return cty.NilVal, fmt.Errorf("%s has letters with combining marks (Unicode NFD), which a value cannot keep: write it in NFC, as `uconv -x nfc` does", path)
		}
		return cty.StringVal(a.Text), nil
	})
	e.funcs["fileexists"] = e.reader(cty.Bool, func(path string) (cty.Value, error) {
		_, ans, _ := world.File.Ask(e.ctx, e.ask, world.FileReq{Path: path})
		switch ans.Code() {
		case fault.Unread:
			return e.unreadVal(cty.Bool, "file "+path), nil
		case "", fault.Absent:
			return cty.BoolVal(ans.Fault == nil), nil
		}
		return cty.NilVal, unread(path, ans)
	})
	e.funcs["templatefile"] = e.templateFile()
	e.funcs["credential"] = function.New(&function.Spec{
		Params: []function.Parameter{{Name: "name", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			name := a[0].AsString()
			if e.Checking() {
				return value.Credential(name), nil
			}
			_, ans, err := world.Credential.Ask(e.ctx, e.ask, world.CredentialReq{Name: name})
			switch {
			case ans.Code() == fault.Unread:
				return e.unreadVal(cty.String, "credential "+name), nil
			case err != nil:
				return cty.NilVal, &MissingCredential{name, ans.Fault.Why, ans.Code() == fault.FileUnusable}
			}
			return value.Credential(name), nil
		}})
	return e.funcs
}

// unreadVal is the value of a question that a recording was never asked.
func (e *Eval) unreadVal(t cty.Type, question string) cty.Value {
	*e.unread = append(*e.unread, question)

	return value.UnreadVal(t, question)
}

// unread is why a file cannot be read, with its name once.
func unread(path string, a world.Answer) error {
	return fmt.Errorf("%s: %s", path, strings.TrimPrefix(a.Why(), path+": "))
}

// MissingCredential is the error of credential() for one that is not there, or cannot be used.
type MissingCredential struct {
	Name, Why string
	isThere   bool // and cannot be used
}

// IsUncaught implements value.Uncaught.
func (m *MissingCredential) IsUncaught() bool { return m.isThere }

func (m *MissingCredential) Error() string {
	why := strings.TrimSuffix(m.Why, ".")
	if !strings.HasPrefix(why, fmt.Sprintf("credential %q", m.Name)) {
		why = fmt.Sprintf("credential %q: %s", m.Name, why)
	}
	return fmt.Sprintf("%s. Give it to prelet.service: LoadCredential=%s:/PATH or ImportCredential=%s in a drop-in.", why, m.Name, m.Name)
}

func (e *Eval) reader(t cty.Type, read func(string) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}}, Type: function.StaticReturnType(t),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			if e.Checking() {
				return cty.UnknownVal(t), nil
			}
			return read(a[0].AsString())
		}})
}

// Unsupported are the attributes that try() and can() met and that no machine has.
func (e *Eval) Unsupported() hcl.Diagnostics {
	var out hcl.Diagnostics
	seen := map[string]bool{}
	for _, d := range *e.unsupported {
		if d.Subject == nil || seen[d.Subject.String()] {
			continue
		}
		seen[d.Subject.String()] = true
		out = append(out, origin.Error(fault.Reference, *d.Subject, d.Summary, "%s try() and can() do not excuse it: no machine has this attribute.", d.Detail))
	}
	return out
}

// AskContext is the context that questions of this run are asked under.
func (e *Eval) AskContext() context.Context { return e.ctx }
