package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// templateFile is templatefile(name, vars): a template of the site over an object of variables. A secret among these
// goes into the text and keeps its mark.
func (e *Eval) templateFile() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "name", Type: cty.String, AllowMarked: true},
			{Name: "vars", Type: cty.DynamicPseudoType, AllowMarked: true, AllowUnknown: true, AllowDynamicType: true},
		},
		Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].IsMarked() || args[1].IsMarked() {
				return cty.NilVal, fmt.Errorf("only values inside of vars may be secrets")
			}

			return e.renderTemplate(args[0].AsString(), args[1])
		},
	})
}

func (e *Eval) renderTemplate(name string, vars cty.Value) (cty.Value, error) {
	template, ok := e.site.Templates[name]
	if !ok {
		return cty.NilVal, fmt.Errorf(
			"the site has no template %q; put it beside the site's other files, and give its name without a folder "+
				"(it has: %s)", name, strings.Join(slices.Sorted(maps.Keys(e.site.Templates)), ", "))
	}

	if !vars.IsKnown() {
		return cty.UnknownVal(cty.String), nil
	}

	if vars.IsNull() || !vars.Type().IsObjectType() && !vars.Type().IsMapType() {
		return cty.NilVal, fmt.Errorf("vars must be an object, such as { servers = var.servers }")
	}

	scope := vars.AsValueMap()
	for _, used := range template.Variables() {
		if _, ok := scope[used.RootName()]; !ok {
			return cty.NilVal, fmt.Errorf("%s uses %q, which is not among vars (%s)",
				positionOf(used.SourceRange()), used.RootName(), strings.Join(slices.Sorted(maps.Keys(scope)), ", "))
		}
	}

	diags := e.calls(template)
	v, more := template.Value(&hcl.EvalContext{Variables: scope, Functions: e.functions()})
	if diags = append(diags, more...); diags.HasErrors() {
		d := diags[0]
		return cty.NilVal, fmt.Errorf("%s: %s: %s", positionOf(*d.Subject), d.Summary, strings.TrimSuffix(d.Detail, "."))
	}

	text, err := convert.Convert(v, cty.String)
	if err != nil {
		return cty.NilVal, fmt.Errorf("%s is not a text: %w", name, err)
	}

	return text, nil
}

func positionOf(r hcl.Range) string {
	return fmt.Sprintf("%s:%d:%d", r.Filename, r.Start.Line, r.Start.Column)
}
