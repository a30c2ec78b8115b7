package eval

import (
	"cmp"
	"fmt"
	"slices"
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
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
)

// templateFile is templatefile(name, vars): a template of the site over an object of variables. A secret among these
// goes into the text and keeps its mark.
func (e *Eval) templateFile() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "name", Type: cty.String},
			{
				Name:             "vars",
				Type:             cty.DynamicPseudoType,
				AllowMarked:      true,
				AllowUnknown:     true,
				AllowDynamicType: true,
			},
		},
		Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			vars, addMarks := secret.Open(args[1])
			text, err := e.renderTemplate(args[0].AsString(), vars)
			if err != nil {
				return cty.NilVal, err
			}

			return addMarks(text), nil
		},
	})
}

// checkTemplateVars warns of each variable that is given to a template and not used there.
func (e *Eval) checkTemplateVars(name, vars hclsyntax.Expression) (diags hcl.Diagnostics) {
	file, unknown := name.Value(nil)
	if unknown.HasErrors() || !value.IsText(file) || e.site.Templates[file.AsString()] == nil {
		return nil
	}

	used := map[string]bool{}
	for _, reference := range e.site.Templates[file.AsString()].Variables() {
		used[reference.RootName()] = true
	}
	given, _ := hcl.ExprMap(vars)
	for _, pair := range given {
		key, unknown := pair.Key.Value(nil)
		if unknown.HasErrors() || !value.IsText(key) || used[key.AsString()] {
			continue
		}
		diags = append(diags, origin.Warning(fault.Reference, pair.Key.Range(),
			fmt.Sprintf("%s does not use %q", file.AsString(), key.AsString()),
			"Use it there, as ${%s}, or remove it here. The template uses: %s.", key.AsString(),
			cmp.Or(strings.Join(sortedKeys(used), ", "), "none")))
	}

	return diags
}

func (e *Eval) renderTemplate(name string, vars cty.Value) (cty.Value, error) {
	template, ok := e.site.Templates[name]
	if !ok {
		known := cmp.Or(strings.Join(sortedKeys(e.site.Templates), ", "), "none")
		return cty.NilVal, fmt.Errorf(
			"the site has no template %q; put it into the folder of the site's other files, with a name that ends in "+
				"%s, and give its name without the folder (it has: %s%s)", name, lang.TemplateSuffix, known,
			askName(name, sortedKeys(e.site.Templates)))
	}

	if !vars.IsKnown() {
		return cty.UnknownVal(cty.String), nil
	}

	t := vars.Type()
	if vars.IsNull() || !t.IsObjectType() && !t.IsMapType() {
		return cty.NilVal, fmt.Errorf("vars must be an object, such as { servers = var.servers }")
	}

	scope := vars.AsValueMap()
	for _, used := range template.Variables() {
		if _, ok := scope[used.RootName()]; !ok {
			at := origin.Place(used.SourceRange())
			given := strings.Join(sortedKeys(scope), ", ")
			format := "%s uses %q, which is not among vars (%s): add it there, or correct one of them"
			if slices.Contains([]string{"var", "local", "stage", "node"}, used.RootName()) {
				format = "%s uses %q, and a template sees only its vars (%s): write ${NAME} of one of them"
			} else if name := used.RootName(); strings.ToUpper(name) == name {
				format += ", or for a variable of a shell write $${" + name + "}"
			}
			return cty.NilVal, fmt.Errorf(format, at, used.RootName(), given)
		}
	}

	diags := e.checkCalls(template)
	ctx := &hcl.EvalContext{Variables: scope, Functions: e.Functions()}
	v, more := e.evaluateIn(template, ctx, true)
	if diags = append(diags, more...); diags.HasErrors() {
		d := diags[0]
		at := origin.Place(*d.Subject).String()
		detail := strings.TrimSuffix(d.Detail, ".")
		if functions.IsSecretRefused(d) {
			return cty.NilVal, functions.NewSecretError(at + ": " + detail)
		}
		return cty.NilVal, fmt.Errorf("%s: %s: %s", at, d.Summary, detail)
	}

	text, err := convert.Convert(v, cty.String)
	if err != nil {
		return cty.NilVal, fmt.Errorf("%s is not a text: %w", name, err)
	}

	return text, nil
}
