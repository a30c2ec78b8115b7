package site

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
)

// variable makes a variable of its block.
func (l *loader) variable(d *definition) {
	v := &Variable{Name: d.block.Labels[0], Type: cty.String, Range: d.block.DefRange()}
	l.site.Variables[v.Name] = v
	a := d.body.Attributes
	if t := a[schema.VariableType.Name]; t != nil {
		v.Type = l.variableType(t)
	}
	if t := a[schema.VariableDescription.Name]; t != nil {
		v.Description, _ = l.constant(schema.VariableDescription, t)
	}
	if t := a[schema.VariableSensitive.Name]; t != nil {
		if s, ok := l.literalValue(schema.VariableSensitive.Spec(), t); ok && !s.IsNull() {
			v.Sensitive = s.True()
		}
	}
	if t := a[schema.VariableDefault.Name]; t != nil {
		v.Default = t.Expr
		if literal(t.Expr) {
			l.convertible(t.Expr, v, "default")
		}
	}
	for _, x := range d.body.Blocks {
		r := Rule{Range: x.DefRange()}
		if c := x.Body.Attributes[schema.ValidationCondition.Name]; c != nil {
			r.Condition = c.Expr
		}
		if m := x.Body.Attributes[schema.ValidationMessage.Name]; m != nil {
			r.Message = m.Expr
		}
		v.Rules = append(v.Rules, r)
	}
	if !v.Sensitive {
		if v.Type == cty.String && soundsSecret(v.Name) {
			l.add(origin.Note(fault.Sensitive, v.Range, fmt.Sprintf("var.%s sounds like a secret", v.Name),
				"It is not sensitive, so its value is shown in plans, recordings and labels. If it is a secret, write sensitive = true, and give it as credential prelet.var.%s.", v.Name))
		}
		return
	}
	if v.Type != cty.String {
		l.errorf(fault.Sensitive, a[schema.VariableType.Name].Expr.Range(), "A sensitive variable is a string", "Its value is the text of credential prelet.var.%s. Remove the type.", v.Name)
	}
	if v.Default != nil {
		l.hide(v.Default.Range())
		l.errorf(fault.Sensitive, v.Default.Range(), "A sensitive variable has no default", "The site's text stands in every recording. Give the value as credential prelet.var.%s.", v.Name)
	}
}

// soundsSecret knows a name whose words say that its value is a secret: db_password, apiToken, private_key; not token_id.
func soundsSecret(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(wordStart.ReplaceAllString(name, "${1}_$2")), func(r rune) bool { return r == '_' || r == '-' })
	if len(words) == 0 {
		return false
	}
	before := ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch words[len(words)-1] {
	case "password", "passwd", "passphrase", "pw", "pass", "pin", "secret", "token", "apikey", "credential", "credentials":
		return true
	case "key":
		return slices.Contains([]string{"private", "api", "access", "secret", "encryption", "shared"}, before)
	}
	return false
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// variableType reads a type expression. In JSON it is a string that holds one.
func (l *loader) variableType(a *hclsyntax.Attribute) cty.Type {
	e := a.Expr
	if t, ok := e.(*hclsyntax.TemplateExpr); ok && t.IsStringLiteral() {
		v, _ := t.Value(nil)
		if !hasSuffix(t.SrcRange.Filename, jsonSuffix) {
			l.errorf(fault.WrongType, e.Range(), "A type is written without quotes", "Write type = %s.", v.AsString())
			return cty.DynamicPseudoType
		}
		// As a template this was one token, whatever it holds.
		if diags := boundedTokens(t.SrcRange.Filename, []byte(v.AsString()), t.SrcRange.Start); diags.HasErrors() {
			l.add(diags...)
			return cty.DynamicPseudoType
		}
		x, diags := hclsyntax.ParseExpression([]byte(v.AsString()), t.SrcRange.Filename, t.SrcRange.Start)
		if diags.HasErrors() {
			l.add(origin.WithCode(diags, fault.Syntax)...)
			return cty.DynamicPseudoType
		}
		e = x
	}
	t, diags := typeexpr.TypeConstraint(e)
	l.add(origin.WithCode(diags, fault.WrongType)...)
	if diags.HasErrors() {
		return cty.DynamicPseudoType
	}
	if !t.Equals(t.WithoutOptionalAttributesDeep()) {
		l.errorf(fault.WrongType, e.Range(), "optional() is no type here", "Every attribute of an object is given; one that may be missing is given as null.")
		return cty.DynamicPseudoType
	}
	return t
}

// convertible checks that a literal fits a variable's type.
func (l *loader) convertible(e hclsyntax.Expression, v *Variable, what string) {
	val, diags := e.Value(nil)
	if diags.HasErrors() {
		l.add(origin.WithCode(diags, fault.WrongType)...)
		return
	}
	if _, err := convert.Convert(val, v.Type); err != nil {
		l.errorf(fault.VariableInvalid, e.Range(), fmt.Sprintf("Wrong type of the %s of var.%s", what, v.Name), "%s: a %s is needed, as declared at %s.", err, schema.TypeName(v.Type), place(v.Range))
	}
}

// values takes the vars files: arguments with literal values for declared variables. A later file wins, and that is
// noted as an override.
func (l *loader) values(files []*hclsyntax.Body) {
	given := map[string]hcl.Range{}
	for _, body := range files {
		for _, x := range body.Blocks {
			l.errorf(fault.UnknownBlock, x.TypeRange, "A block in a vars file", "A vars file holds NAME = VALUE lines for the site's variables; blocks stand in *.hcl files.")
		}
		for _, a := range attributes(body) {
			v := l.site.Variables[a.Name]
			switch {
			case v == nil && l.defs["variable."+a.Name] == nil:
				l.errorf(fault.VariableUnknown, a.NameRange, fmt.Sprintf("There is no variable %q", a.Name), "%s Declare it with variable %q { … }, or remove this line.", l.suggestVariable(a.Name), a.Name)
				continue
			case v.Sensitive:
				l.hide(a.Expr.Range())
				l.errorf(fault.Sensitive, a.NameRange, fmt.Sprintf("var.%s is sensitive", a.Name), "Vars files stand in every recording. Give its value as credential prelet.var.%s, and remove this line.", a.Name)
				continue
			case !literal(a.Expr):
				l.errorf(fault.Reference, a.Expr.Range(), "A value in a vars file is a literal", "No references, no functions, no templates: what is computed stands in locals { … } of a *.hcl file.")
				continue
			}
			l.convertible(a.Expr, v, "value")
			if first, ok := given[a.Name]; ok {
				l.site.Overrides = append(l.site.Overrides, Override{Address: "var." + a.Name, Base: first, Over: a.SrcRange})
			}
			given[a.Name] = a.SrcRange
			l.site.Values[a.Name] = FileValue{Expr: a.Expr}
		}
	}
}

func (l *loader) suggestVariable(name string) string {
	known := slices.Collect(maps.Keys(l.site.Variables))
	if len(known) == 0 {
		return "The site declares none."
	}
	return schema.Suggest(name, known)
}

// ParseVarsFile parses a vars file that a command line names, which is not part of the site: it may have the values of
// sensitive variables. It returns each value as the text that a credential or a kernel command line would have. No
// message contains a value.
func ParseVarsFile(name string, text []byte) (map[string]string, error) {
	body, diags := parseNative(name, text)
	if diags.HasErrors() {
		d := diags.Errs()[0].(*hcl.Diagnostic)
		return nil, fmt.Errorf("%s: %s", place(*d.Subject), d.Summary)
	}
	if len(body.Blocks) > 0 {
		return nil, fmt.Errorf("%s: a block; write NAME = VALUE, one in a line", place(body.Blocks[0].TypeRange))
	}

	out := map[string]string{}
	for _, a := range attributes(body) {
		if !literal(a.Expr) || checkExpression(a.Expr).HasErrors() {
			return nil, fmt.Errorf("%s: the value of %s is not a literal", place(a.Expr.Range()), a.Name)
		}
		if v, d := a.Expr.Value(nil); !d.HasErrors() && v.IsNull() { // as a text it would be the word
			return nil, fmt.Errorf("%s: %s is null; leave it out, or give it a value", place(a.Expr.Range()), a.Name)
		}
		out[a.Name] = string(a.Expr.Range().SliceBytes(text))
		if v, d := a.Expr.Value(nil); !d.HasErrors() && v.Type() == cty.String {
			out[a.Name] = v.AsString()
		}
	}

	return out, nil
}
