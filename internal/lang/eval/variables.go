package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Variables gives every variable its value: default, vars files, then what the world says (credential, kernel
// command line, --var; the adapter knows which wins). In check mode one without a value is unknown of its type.
func (e *Eval) Variables() hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, n := range slices.Sorted(maps.Keys(e.site.Variables)) {
		v := e.site.Variables[n]
		val, d := e.variable(v)
		diags = append(diags, d...)
		if d.HasErrors() || val == cty.NilVal {
			val = cty.UnknownVal(v.Type)
		}
		e.vars[n] = val
	}
	if diags.HasErrors() {
		return diags
	}
	for _, n := range slices.Sorted(maps.Keys(e.site.Variables)) {
		diags = append(diags, e.validate(e.site.Variables[n])...)
	}
	return diags
}

func (e *Eval) variable(v *site.Variable) (cty.Value, hcl.Diagnostics) {
	if !e.Checking() {
		a, ans, err := world.Variable.Ask(e.ctx, e.ask, world.VariableReq{Name: v.Name, Sensitive: v.Sensitive})
		switch {
		case err == nil && v.Sensitive:
			return value.Credential("prelet.var." + v.Name), nil
		case err == nil:
			return e.given(v, a)
		case ans.Code() == fault.Unread:
			return e.unreadVariable(v)
		case ans.Code() != fault.Absent:
			return cty.NilVal, hcl.Diagnostics{origin.Error(fault.VariableInvalid, v.Range, fmt.Sprintf("Variable %q cannot be read", v.Name), "%s. %s.", strings.TrimSuffix(ans.Fault.Why, "."), strings.TrimSuffix(ans.Fault.Next, "."))}
		}
	}
	if f, ok := e.site.Values[v.Name]; ok {
		return e.convert(v, f.Expr)
	}
	if v.Default != nil {
		return e.convert(v, v.Default)
	}
	if e.Checking() {
		if v.Sensitive {
			return value.Credential("prelet.var." + v.Name), nil
		}
		return cty.UnknownVal(v.Type), nil
	}
	how := "Set it in a *.prelet.vars file, as credential prelet.var.%s, on the kernel command line (prelet.var.%s=…), or with --var %s=…"
	detail := fmt.Sprintf(how, v.Name, v.Name, v.Name)
	if v.Sensitive {
		detail = fmt.Sprintf("It is sensitive: only the credential prelet.var.%s can give it, and in a plan also a file with --var-file, which need not have the real value.", v.Name)
	}
	if v.Description != "" {
		detail = "It is for: " + v.Description + ". " + detail
	}
	return cty.NilVal, hcl.Diagnostics{origin.Error(fault.VariableMissing, v.Range, fmt.Sprintf("Variable %q has no value", v.Name), "%s", detail)}
}

// given converts a text from outside: a string as it is, anything else as an expression of literals.
func (e *Eval) given(v *site.Variable, a world.VariableAns) (cty.Value, hcl.Diagnostics) {
	if value.HasPlaceholder(a.Text) {
		return cty.NilVal, hcl.Diagnostics{origin.Error(fault.VariableInvalid, v.Range, fmt.Sprintf("Variable %q has a character that prelet keeps for itself", v.Name), "U+E000 and U+E001 cannot be used.")}
	}
	if v.Type == cty.String || v.Type == cty.Number || v.Type == cty.Bool {
		return e.fit(v, cty.StringVal(a.Text), fmt.Sprintf("from %s: %q", a.Source, a.Text))
	}
	refuse := func(why string) hcl.Diagnostics {
		return hcl.Diagnostics{origin.Error(fault.VariableInvalid, v.Range, fmt.Sprintf("Variable %q cannot be read", v.Name), "From %s: %s.", a.Source, strings.TrimSuffix(why, "."))}
	}
	x, err := site.ParseValue(a.Source+" "+v.Name, []byte(a.Text))
	if err != nil {
		return cty.NilVal, refuse(err.Error())
	}
	val, d := x.Value(nil)
	if d.HasErrors() {
		return cty.NilVal, refuse(d[0].Detail)
	}
	return e.fit(v, val, "from "+a.Source)
}

func (e *Eval) convert(v *site.Variable, x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	val, d := x.Value(nil)
	if d.HasErrors() {
		return cty.NilVal, named(d)
	}
	r := x.Range()
	return e.fit(v, val, fmt.Sprintf("at %s:%d", r.Filename, r.Start.Line))
}

func (e *Eval) fit(v *site.Variable, val cty.Value, where string) (cty.Value, hcl.Diagnostics) {
	c, err := convert.Convert(val, v.Type)
	if err != nil {
		return cty.NilVal, hcl.Diagnostics{origin.Error(fault.VariableInvalid, v.Range, fmt.Sprintf("Variable %q has the wrong type", v.Name), "Its value %s: %s.", where, err)}
	}
	if what := tooLarge(c); what != "" {
		return cty.NilVal, hcl.Diagnostics{origin.Error(fault.Limit, v.Range, fmt.Sprintf("Variable %q is too large", v.Name), "It has %s.", what)}
	}
	return c, nil
}

// unreadVariable is the value of a variable that a recording does not have. Without one in the site, a boot may fail
// although nothing uses it.
func (e *Eval) unreadVariable(v *site.Variable) (cty.Value, hcl.Diagnostics) {
	question := "variable " + v.Name
	out := value.UnreadVal(v.Type, question)
	if _, ok := e.site.Values[v.Name]; ok || v.Default != nil {
		return out, nil
	}

	what := fmt.Sprintf("whether variable %q has a value", v.Name)

	return out, hcl.Diagnostics{origin.NotRead(v.Range, what, []string{question})}
}

// validate applies the rules of a variable. A sensitive one is judged where its bytes are: the answer is on the tape.
func (e *Eval) validate(v *site.Variable) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for n, r := range v.Rules {
		refused := origin.Error(fault.VariableInvalid, r.Range, fmt.Sprintf("Variable %q is not valid", v.Name), "%s", e.message(r))
		if v.Sensitive {
			if e.Checking() {
				continue
			}
			a, ans, err := world.Validation.Ask(e.ctx, e.ask, world.ValidationReq{Variable: v.Name, Rule: n})
			if ans.Code() == fault.Unread {
				diags = append(diags, origin.NotRead(r.Range, fmt.Sprintf("whether variable %q is valid", v.Name),
					[]string{"validation of variable " + v.Name}))
				continue
			}
			if err != nil || !a.OK {
				diags = append(diags, refused)
			}
			continue
		}
		val, d := e.Value(r.Condition, cty.NilVal)
		if diags = append(diags, named(d)...); d.HasErrors() {
			continue
		}
		u, _, _ := value.Plain(val)
		switch {
		case !u.IsKnown():
		case u.Type() != cty.Bool || u.IsNull():
			diags = append(diags, origin.Error(fault.WrongType, r.Condition.Range(), "Wrong type for condition", "true or false is needed."))
		case u.False():
			if given, _, _ := value.Plain(e.vars[v.Name]); given.IsKnown() && !given.IsNull() && given.Type() == cty.String {
				refused.Detail = stages.Sentence(refused.Detail, fmt.Sprintf("It is %q", given.AsString()))
			}
			diags = append(diags, refused)
		}
	}
	return diags
}

// message is what a rule says of a value that it refuses: as it is written, where it cannot be told without a secret.
func (e *Eval) message(r site.Rule) string {
	v, d := e.Value(r.Message, cty.NilVal)
	u, secrets, _ := value.Plain(v)
	if s, err := convert.Convert(u, cty.String); err == nil && !d.HasErrors() && len(secrets) == 0 && s.IsKnown() && !s.IsNull() {
		return s.AsString()
	}
	return e.Text(r.Message.Range())
}

// Judge evaluates one rule of a sensitive variable over its real text: for the live adapter of "validation".
func Judge(ctx context.Context, s *site.Site, variable string, rule int, secret string) bool {
	v := s.Variables[variable]
	if v == nil || rule < 0 || rule >= len(v.Rules) {
		return false
	}
	e := New(ctx, s, nil)
	e.vars[variable] = cty.StringVal(secret)
	val, d := e.Value(v.Rules[rule].Condition, cty.NilVal)
	if d.HasErrors() {
		return false
	}
	u, _, _ := value.Plain(val)
	return u.IsKnown() && !u.IsNull() && u.Type() == cty.Bool && u.True()
}

// named gives diagnostics of HCL and cty their code: a missing credential has its own exit status.
func named(ds hcl.Diagnostics) hcl.Diagnostics {
	for _, d := range ds {
		if hint := misspelt(d); hint != "" && !strings.HasSuffix(d.Detail, hint) {
			d.Detail += " " + hint
		}
		if value.SensitiveError(hcl.Diagnostics{d}) {
			d.Extra = origin.Extra{Code: fault.Sensitive}
			continue
		}
		if x, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok {
			if x.CalledFunctionName() == "contains" && strings.Contains(d.Detail, "argument must be list") {
				d.Detail += " To look into a text: can(regex(\"Xeon\", TEXT))."
			}
			var m *MissingCredential
			if errors.As(x.FunctionCallError(), &m) {
				d.Summary, d.Detail = "A credential is needed", m.Error()
				d.Extra = origin.Extra{Code: fault.CredentialMissing, Cause: m}
			}
		}
	}
	return origin.WithCode(ds, fault.Evaluation)
}
