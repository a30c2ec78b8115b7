package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Variables gives every variable its value: the default, a vars file, then the answer of the source (credential, kernel
// command line, --var; it knows their order). In check mode a variable without a value is unknown.
func (e *Eval) Variables() hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, name := range sortedKeys(e.site.Variables) {
		v := e.site.Variables[name]
		val, d := e.variable(v)
		diags = append(diags, d...)
		if d.HasErrors() || val == cty.NilVal {
			val = cty.UnknownVal(v.Type)
		}
		e.vars[name] = val
	}
	if diags.HasErrors() {
		return diags
	}

	for _, name := range sortedKeys(e.site.Variables) {
		diags = append(diags, e.validate(e.site.Variables[name])...)
	}

	return diags
}

func (e *Eval) variable(v *lang.Variable) (cty.Value, hcl.Diagnostics) {
	if !e.Checking() {
		request := tape.VariableReq{Name: v.Name, Sensitive: v.Sensitive}
		a, ans, err := tape.Variable.Ask(e.ctx, e.source, request)
		switch {
		case err == nil:
			e.given[v.Name] = a.Source
			val, diags := parseVariable(v, a)
			if ans.Stale != 0 {
				diags = append(diags, stages.WarnKept(v.Range, v.Name, ans))
			}
			return val, diags
		case ans.Code() == fault.Unread:
			what := fmt.Sprintf("variable %q, which --var or --var-file can give", v.Name)
			return cty.NilVal, hcl.Diagnostics{origin.NotRead(v.Range, what)}
		case ans.Code() != fault.Absent:
			why := strings.TrimSuffix(ans.Fault.Why, ".")
			next := strings.TrimSuffix(ans.Fault.Next, ".")
			return invalidVariable(v, "cannot be read", "%s. %s.", why, next)
		}
	}

	switch x, ok := e.site.Values[v.Name]; {
	case ok:
		return literalVariable(v, x)
	case v.Default != nil:
		return literalVariable(v, v.Default)
	case e.Checking() && v.Sensitive:
		return sensitiveVariable(v), nil
	case e.Checking():
		return cty.UnknownVal(v.Type), nil
	}

	return cty.NilVal, hcl.Diagnostics{missingVariable(v)}
}

func sensitiveVariable(v *lang.Variable) cty.Value {
	return secret.Credential("prelet.var." + v.Name)
}

func invalidVariable(
	v *lang.Variable,
	what, detail string,
	args ...any,
) (cty.Value, hcl.Diagnostics) {
	summary := fmt.Sprintf("Variable %q %s", v.Name, what)
	d := origin.Error(fault.VariableInvalid, v.Range, summary, detail, args...)

	return cty.NilVal, hcl.Diagnostics{d}
}

func missingVariable(v *lang.Variable) *hcl.Diagnostic {
	detail := fmt.Sprintf(
		"Set it in a *.preletvars.hcl file, as credential prelet.var.%[1]s (before systemd 254 with "+
			"LoadCredential= in a drop-in), on the kernel command line (prelet.var.%[1]s=…), or with --var %[1]s=…",
		v.Name,
	)
	if v.Sensitive {
		detail = fmt.Sprintf(
			"It is sensitive: only the credential prelet.var.%s can give it (before systemd 254 with LoadCredential= "+
				"in a drop-in), and in a plan also a file with --var-file, which need not have the real value.",
			v.Name,
		)
	}
	if v.Description != "" {
		detail = "It is for: " + v.Description + ". " + detail
	}

	summary := fmt.Sprintf("Variable %q has no value", v.Name)

	return origin.Error(fault.VariableMissing, v.Range, summary, "%s", detail)
}

// parseVariable converts a text from outside: that of a primitive type as it is, any other as an expression of
// literals.
func parseVariable(v *lang.Variable, a tape.VariableAns) (cty.Value, hcl.Diagnostics) {
	if v.Sensitive { // the answer does not have its text
		return sensitiveVariable(v), nil
	}
	if secret.HasPlaceholder(a.Text) {
		return invalidVariable(v, "has a reserved character", "U+E000 and U+E001 cannot be used.")
	}
	if v.Type.IsPrimitiveType() {
		where := fmt.Sprintf("from %s: %q", a.Source, a.Text)
		return convertVariable(v, cty.StringVal(a.Text), where)
	}

	unreadable := func(why string) (cty.Value, hcl.Diagnostics) {
		return invalidVariable(v, "cannot be read", "From %s: %s.", a.Source, strings.TrimSuffix(why, "."))
	}
	x, err := lang.ParseValue(a.Source+" "+v.Name, []byte(a.Text))
	if err != nil && a.Source == "--var" && v.Type.IsCollectionType() {
		return unreadable(fmt.Sprintf("this is not %s. Write it in single quotes, with double ones inside, which a "+
			"shell else removes: --var '%s=%s'", schema.Article(v.Type), v.Name, guessCollection(v.Type, a.Text)))
	}
	if err != nil {
		return unreadable(err.Error())
	}
	val, diags := x.Value(nil)
	if diags.HasErrors() {
		return unreadable(diags[0].Detail)
	}

	return convertVariable(v, val, "from "+a.Source)
}

// guessCollection returns a text with the quotes or brackets that it probably lacks.
func guessCollection(t cty.Type, text string) string {
	quote := func(word string) string {
		word = strings.Trim(word, "\"' ")
		if t.ElementType() != cty.String {
			return word
		}

		return strconv.Quote(word)
	}
	var items []string
	for _, item := range strings.Split(strings.Trim(text, "[]{} "), ",") {
		key, word, _ := strings.Cut(item, "=")
		switch {
		case strings.TrimSpace(item) == "":
		case t.IsMapType():
			items = append(items, strings.TrimSpace(key)+" = "+quote(word))
		default:
			items = append(items, quote(item))
		}
	}
	joined := strings.Join(items, ", ")
	if t.IsMapType() {
		return strings.ReplaceAll("{ "+joined+" }", "{  }", "{}")
	}

	return "[" + joined + "]"
}

func literalVariable(v *lang.Variable, x hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	val, diags := x.Value(nil)
	if diags.HasErrors() {
		return cty.NilVal, addCodes(diags)
	}
	r := x.Range()

	return convertVariable(v, val, fmt.Sprintf("at %s:%d", r.Filename, r.Start.Line))
}

func convertVariable(
	v *lang.Variable,
	val cty.Value,
	where string,
) (cty.Value, hcl.Diagnostics) {
	converted, err := convert.Convert(val, v.Type)
	if err != nil {
		return invalidVariable(v, "has the wrong type", "Its value %s: %s.", where, err)
	}
	if excess := describeExcess(converted); excess != "" {
		summary := fmt.Sprintf("Variable %q is too large", v.Name)
		return cty.NilVal, hcl.Diagnostics{
			origin.Error(fault.Limit, v.Range, summary, "It has %s.", excess),
		}
	}

	return converted, nil
}

// validate applies the rules of a variable.
func (e *Eval) validate(v *lang.Variable) (diags hcl.Diagnostics) {
	for n, rule := range v.Rules {
		if v.Sensitive {
			diags = append(diags, e.validateSensitive(v, n)...)
		} else {
			diags = append(diags, e.validateRule(v, rule)...)
		}
	}

	return diags
}

// validateSensitive asks for the result of a rule: it is evaluated where the credential's bytes are.
func (e *Eval) validateSensitive(v *lang.Variable, n int) hcl.Diagnostics {
	if e.Checking() {
		return nil
	}

	rule := v.Rules[n]
	request := tape.ValidationReq{Variable: v.Name, Rule: n}
	a, ans, err := tape.Validation.Ask(e.ctx, e.source, request)
	switch {
	case ans.Code() == fault.Unread:
		what := fmt.Sprintf("whether variable %q is valid", v.Name)
		return hcl.Diagnostics{origin.NotRead(rule.Range, what)}
	case err != nil || !a.OK:
		return hcl.Diagnostics{e.refuseValue(v, rule, "")}
	}

	return nil
}

// ruleCondition is the condition of a rule, as it is decoded.
var ruleCondition = schema.Attr[bool]{Name: "condition", Null: "true or false is needed."}

func (e *Eval) validateRule(v *lang.Variable, rule lang.Rule) hcl.Diagnostics {
	condition, diags := ruleCondition.Decode(rule.Condition, e.Scope(""))
	if condition.Set() && !condition.V {
		shown := ""
		if given := e.vars[v.Name]; value.IsText(given) {
			shown = fmt.Sprintf("It is %q", given.AsString())
		}
		diags = append(diags, e.refuseValue(v, rule, shown))
	}

	return diags
}

// refuseValue returns the error for a value that a rule refuses, at the place of the value, which has to change, if
// that is in a file of the site. Shown describes the value, or is empty.
func (e *Eval) refuseValue(v *lang.Variable, rule lang.Rule, shown string) *hcl.Diagnostic {
	at := rule.Range
	if source := e.given[v.Name]; source != "" {
		shown = cmp.Or(shown, "The value came") + " from " + source
	} else if x := cmp.Or(e.site.Values[v.Name], v.Default); x != nil {
		at = x.Range()
		shown = stages.Sentence(shown, fmt.Sprintf("The rule is at %s", origin.Place(rule.Range)))
	}
	detail := stages.Sentence(e.ruleMessage(rule), shown)

	return origin.Error(fault.VariableInvalid, at, fmt.Sprintf("Variable %q is not valid", v.Name), "%s", detail)
}

// ruleMessage returns the message of a rule, or its source where its value has a secret or cannot be known.
func (e *Eval) ruleMessage(r lang.Rule) string {
	v, diags := e.Value(r.Message, cty.NilVal)
	text, ok := value.KeyText(v)
	if diags.HasErrors() || len(secret.Names(v)) > 0 || !ok {
		return e.Text(r.Message.Range())
	}

	return text
}

// CheckRule evaluates one rule of a sensitive variable over its real text, to answer the question "validation".
func CheckRule(
	ctx context.Context,
	s *lang.Site,
	variable string,
	rule int,
	secret string,
) bool {
	v := s.Variables[variable]
	if v == nil || rule < 0 || rule >= len(v.Rules) {
		return false
	}

	e := New(ctx, s, nil)
	e.vars[variable] = cty.StringVal(secret)
	isTrue, isKnown := e.Condition(v.Rules[rule].Condition, cty.NilVal)

	return isTrue && isKnown
}

// addCodes sets the codes of diagnostics of HCL and cty, and improves their messages.
func addCodes(diags hcl.Diagnostics) hcl.Diagnostics {
	for _, d := range diags {
		if functions.IsSecretRefused(d) {
			d.Extra = origin.Extra{Code: fault.Sensitive}
		} else if call, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok {
			explainCall(d, call)
		}
	}

	return origin.WithCode(diags, fault.Evaluation)
}

// suggestContains returns the next step for a call of contains() without a list, after a space.
func suggestContains(d *hcl.Diagnostic) string {
	call, ok := d.Expression.(*hclsyntax.FunctionCallExpr)
	if ok && len(call.Args) == 2 {
		_, diags := hcl.ExprList(call.Args[1])
		t := lookUp(call.Args[1], d.EvalContext).Type()
		if !diags.HasErrors() || t.IsListType() || t.IsTupleType() || t.IsSetType() {
			return " It takes the list first: contains(LIST, VALUE)."
		}
	}

	return " To look into a text: can(regex(\"Xeon\", TEXT))."
}

// explainCall improves the message of a call that failed. A missing credential has its own code.
func explainCall(d *hcl.Diagnostic, call hclsyntax.FunctionCallDiagExtra) {
	name := call.CalledFunctionName()
	switch {
	case name == "contains" && strings.Contains(d.Detail, "argument must be list"):
		d.Detail += suggestContains(d)
	case name == "regex" && strings.Contains(d.Detail, "did not match"):
		d.Detail += " Where nothing may match: try(regex(…), null)."
	case strings.Contains(d.Detail, "must pass at least one number"):
		d.Detail += " Where the list may be empty: length(LIST) > 0 ? " + name + "(LIST...) : null."
	}

	var missing *MissingCredential
	var unread *notRecorded
	var hangs *noAnswer
	var panicked function.PanicError
	switch err := call.FunctionCallError(); {
	case errors.As(err, &missing):
		d.Summary, d.Detail = "A credential is needed", missing.Error()
		d.Extra = origin.Extra{Code: fault.CredentialMissing}
	case errors.As(err, &unread):
		refused := origin.NotRead(hcl.Range{}, unread.what)
		d.Summary, d.Detail, d.Extra = refused.Summary, refused.Detail, refused.Extra
	case errors.As(err, &hangs):
		d.Summary, d.Detail = "A file system does not answer", hangs.Error()+"."
		if next := strings.TrimSuffix(hangs.next, "."); next != "" {
			d.Detail += " " + next + "."
		}
		d.Extra = origin.Extra{Code: fault.NoAnswer}
	case errors.As(err, &panicked): // cty's text has the stack
		d.Detail = fmt.Sprintf("%s() failed unexpectedly (%v). Please report this.", name, panicked.Value)
	}
}
