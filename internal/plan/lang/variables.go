package lang

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/schema"
)

func (l *loader) addVariable(d *definition) {
	v := &Variable{
		Name:  d.block.Labels[0],
		Type:  cty.String,
		Range: d.block.DefRange(),
	}
	l.site.Variables[v.Name] = v

	attributes := d.body.Attributes
	if a := attributes[schema.VariableType.Name]; a != nil {
		v.Type = l.variableType(a)
	}
	if a := attributes[schema.VariableDescription.Name]; a != nil {
		v.Description, _ = l.constant(schema.VariableDescription, a)
	}
	if a := attributes[schema.VariableSensitive.Name]; a != nil {
		isSensitive, ok := l.literalValue(schema.VariableSensitive.Spec(), a)
		v.Sensitive = ok && !isSensitive.IsNull() && isSensitive.True()
	}
	if a := attributes[schema.VariableDefault.Name]; a != nil {
		v.Default = a.Expr
		if isLiteral(a.Expr) {
			l.checkConvertible(a.Expr, v, "default")
		}
	}

	for _, x := range d.body.Blocks {
		rule := Rule{Range: x.DefRange()}
		if a := x.Body.Attributes[schema.ValidationCondition.Name]; a != nil {
			rule.Condition = a.Expr
		}
		if a := x.Body.Attributes[schema.ValidationMessage.Name]; a != nil {
			rule.Message = a.Expr
		}
		v.Rules = append(v.Rules, rule)
	}

	l.checkSensitive(v, attributes[schema.VariableType.Name])
}

// checkSensitive checks that the value of a sensitive variable can only come from a credential.
func (l *loader) checkSensitive(v *Variable, typ *hclsyntax.Attribute) {
	switch {
	case !v.Sensitive && v.Type == cty.String && soundsSecret(v.Name):
		l.Note(
			fault.Sensitive,
			v.Range,
			fmt.Sprintf("var.%s sounds like a secret", v.Name),
			"It is not sensitive, so its value is shown in plans, recordings and labels. If it is a secret, "+
				"write sensitive = true, and give it as credential prelet.var.%s.",
			v.Name,
		)
	case v.Sensitive && v.Type != cty.String:
		l.Error(fault.Sensitive, typ.Expr.Range(), "A sensitive variable must be a string",
			"Its value is the text of credential prelet.var.%s. Remove the type.", v.Name)
	}

	if v.Sensitive && v.Default != nil {
		l.hide(v.Default.Range())
		l.Error(
			fault.Sensitive,
			v.Default.Range(),
			"A sensitive variable must not have a default",
			"Recordings contain the site's text. Provide the value as credential prelet.var.%s.",
			v.Name,
		)
	}
}

var (
	secretName = texts.LazyRegexp(
		`(^|[_-])(password|passwd|passphrase|pw|pass|pin|secret|token|` +
			`apikey|credentials?|(private|api|access|secret|encryption|shared)[_-]key)$`,
	)
	wordStart = texts.LazyRegexp(`([a-z0-9])([A-Z])`)
)

// soundsSecret reports whether a value is a secret by its name: db_password, apiToken, private_key; not
// token_id.
func soundsSecret(name string) bool {
	return secretName().MatchString(strings.ToLower(wordStart().ReplaceAllString(name, "${1}_$2")))
}

// variableType parses a type expression.
func (l *loader) variableType(a *hclsyntax.Attribute) cty.Type {
	e := a.Expr
	if t, ok := e.(*hclsyntax.TemplateExpr); ok && t.IsStringLiteral() {
		v, _ := t.Value(nil)
		name := v.AsString()
		if slices.Contains([]string{"list", "set", "map"}, name) {
			name += "(string)"
		}
		l.Error(fault.WrongType, t.SrcRange, "A type is written without quotes", "Write type = %s.", name)

		return cty.DynamicPseudoType
	}

	t, diags := typeexpr.TypeConstraint(e)
	other := map[string]string{
		"int": "number", "integer": "number", "float": "number", "str": "string", "text": "string", "boolean": "bool",
	}
	for _, d := range diags {
		if meant := other[hcl.ExprAsKeyword(e)]; meant != "" {
			d.Detail += fmt.Sprintf(" Did you mean %s?", meant)
		}
		if strings.Contains(d.Detail, "requires one argument specifying the element type") {
			d.Detail += fmt.Sprintf(" Write %s(string).", hcl.ExprAsKeyword(e))
		}
		if strings.Contains(d.Detail, "is not a valid type specification.") {
			d.Detail += " Types are string, number, bool, any, list(TYPE), set(TYPE), map(TYPE), tuple([TYPE, …]) " +
				"and object({ NAME = TYPE })."
		}
	}
	l.Report(origin.WithCode(diags, fault.WrongType)...)
	if diags.HasErrors() {
		return cty.DynamicPseudoType
	}
	if !t.Equals(t.WithoutOptionalAttributesDeep()) {
		l.Error(fault.WrongType, e.Range(), "optional() is not supported",
			"Every attribute of an object is given; one that may be missing is given as null.")

		return cty.DynamicPseudoType
	}

	return t
}

// checkConvertible checks that a literal has a variable's type.
func (l *loader) checkConvertible(e hclsyntax.Expression, v *Variable, what string) {
	val, diags := e.Value(nil)
	if diags.HasErrors() {
		l.Report(origin.WithCode(diags, fault.WrongType)...)
		return
	}

	if _, err := convert.Convert(val, v.Type); err != nil {
		where := ""
		if strings.Contains(err.Error(), ":") { // of an item
			where = "; " + err.Error()
		}
		l.Error(
			fault.VariableInvalid,
			e.Range(),
			fmt.Sprintf("Wrong type of the %s of var.%s", what, v.Name),
			"%s is needed, as declared at %s, and this is %s%s.",
			origin.Capitalize(schema.Article(v.Type)),
			origin.Place(v.Range),
			schema.Article(val.Type()),
			where,
		)
	}
}

// addValues adds the values of the vars files. A later file wins, with a note.
func (l *loader) addValues(files []*hclsyntax.Body) {
	given := map[string][]hcl.Range{}

	for _, body := range files {
		for _, x := range body.Blocks {
			l.hideLine(x.TypeRange.Filename, x.TypeRange.End.Byte+1, x.Range().End.Byte)
			l.Error(
				fault.UnknownBlock,
				x.TypeRange,
				"A block in a vars file",
				"A vars file contains NAME = VALUE lines for the site's variables; write blocks in *.hcl files.",
			)
		}

		for _, a := range listAttributes(body) {
			if !l.checkVarsLine(a) {
				continue
			}
			if before := given[a.Name]; len(before) > 0 {
				l.site.Overrides = append(l.site.Overrides,
					Override{
						Address: "var." + a.Name,
						Base:    before[len(before)-1],
						Over:    a.SrcRange,
					})
			}
			given[a.Name] = append(given[a.Name], a.SrcRange)
			l.site.Values[a.Name] = a.Expr
		}
	}

	for _, name := range slices.Sorted(maps.Keys(given)) {
		last := len(given[name]) - 1
		for _, place := range given[name][:last] {
			l.Note(
				fault.LayerReplaced, place, fmt.Sprintf("A value of var.%s is replaced", name),
				"The one at %s wins: a later layer before an earlier one, and in a layer the later name.",
				origin.Place(given[name][last]),
			)
		}
	}
}

// checkVarsLine checks one line of a vars file: a literal for a declared variable that is not sensitive.
func (l *loader) checkVarsLine(a *hclsyntax.Attribute) bool {
	v := l.site.Variables[a.Name]

	switch {
	case v == nil:
		l.hideLine(a.SrcRange.Filename, a.Expr.Range().Start.Byte, a.SrcRange.End.Byte)
		known := slices.Collect(maps.Keys(l.site.Variables))
		l.Error(
			fault.VariableUnknown,
			a.NameRange,
			fmt.Sprintf("Unknown variable %q", a.Name),
			"%s Declare it with variable %q { … }, or remove this line.",
			schema.Suggest(a.Name, known),
			a.Name,
		)
	case v.Sensitive:
		l.hideLine(a.SrcRange.Filename, a.Expr.Range().Start.Byte, a.SrcRange.End.Byte)
		l.Error(
			fault.Sensitive,
			a.NameRange,
			fmt.Sprintf("var.%s is sensitive", a.Name),
			"Recordings contain vars files. Provide its value as credential prelet.var.%s, and remove this line.",
			a.Name,
		)
	case !isLiteral(a.Expr):
		l.Error(
			fault.Reference,
			a.Expr.Range(),
			"A value in a vars file must be a literal",
			"No references, no functions, no templates: a text is in quotes. Write computed values in locals { … } of "+
				"a *.hcl file.",
		)
	default:
		diags := checkExpression(a.Expr)
		l.Report(diags...)
		if !diags.HasErrors() {
			l.checkConvertible(a.Expr, v, "value")
		}

		return true
	}

	return false
}

// hideLine hides what may be a secret, and what follows it in its last line.
func (l *loader) hideLine(file string, start, end int) {
	src := l.site.Sources[file]
	if n := bytes.IndexByte(src[end:], '\n'); n >= 0 {
		end += n
	} else {
		end = len(src)
	}
	l.hide(hcl.Range{Filename: file, Start: hcl.Pos{Byte: start}, End: hcl.Pos{Byte: end}})
}

// beforeValue matches the text before the value in a line of a vars file, also as other languages write it.
var beforeValue = texts.LazyRegexp(`^[ \t]*(?:export[ \t]+)?["']?([A-Za-z_][\w-]*)["']?[ \t]*[=:][ \t]*`)

// HideValues returns the text of a vars file that cannot be read, as diagnostics may show it: each of its lines may
// have a secret. Of a line only the name of a known variable stays, because another word may be a part of a secret.
func HideValues(src []byte, known []string) []byte {
	out := slices.Clone(src)
	start := 0
	for line := range bytes.Lines(src) {
		from := start
		if m := beforeValue().FindSubmatch(line); m != nil && slices.Contains(known, string(m[1])) {
			from += len(m[0])
		}
		start += len(line)
		secret.Blank(out, from, start)
	}

	return out
}

// declaredIn returns the names of the variables that files of a site declare.
func declaredIn(bodies []*hclsyntax.Body) (names []string) {
	for _, body := range bodies {
		for _, x := range body.Blocks {
			if x.Type == schema.VariableBlock.Type && len(x.Labels) > 0 {
				names = append(names, x.Labels[0])
			}
		}
	}

	return names
}

// GivenText is the text of a value in a vars file of the command line.
type GivenText struct {
	Text string
	At   hcl.Range
}

// ParseVarsFile parses a vars file of the command line, which is not part of the site and may have the values of
// sensitive variables. It returns each value as the text that a credential or a kernel command line would have, with
// its place. No error contains a value.
func ParseVarsFile(name string, text []byte) (map[string]GivenText, error) {
	body, diags := parseNative(name, text)
	if diags.HasErrors() {
		d := diags.Errs()[0].(*hcl.Diagnostic)
		return nil, fmt.Errorf("%s: %s", origin.Place(*d.Subject), d.Summary)
	}
	if len(body.Blocks) > 0 {
		return nil, fmt.Errorf(
			"%s: a block; write NAME = VALUE, one in a line",
			origin.Place(body.Blocks[0].TypeRange),
		)
	}

	out := map[string]GivenText{}
	for _, a := range listAttributes(body) {
		at := a.Expr.Range()
		if !isLiteral(a.Expr) || checkExpression(a.Expr).HasErrors() {
			return nil, fmt.Errorf("%s: the value of %s is not a literal", origin.Place(at), a.Name)
		}

		v, diags := a.Expr.Value(nil)
		switch {
		case !diags.HasErrors() && v.IsNull(): // as a text it would be the word
			return nil, fmt.Errorf(
				"%s: %s is null; leave it out, or give it a value",
				origin.Place(at),
				a.Name,
			)
		case !diags.HasErrors() && v.Type() == cty.String:
			out[a.Name] = GivenText{v.AsString(), at}
		default:
			out[a.Name] = GivenText{string(at.SliceBytes(text)), at}
		}
	}

	return out, nil
}
