package lang

import (
	"fmt"
	"path"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
)

// addTemplate adds a template of templatefile() by its name without the directory.
func (l *loader) addTemplate(name string, src []byte) {
	if diags := checkText(name, src); diags.HasErrors() {
		l.Report(diags...)
		return
	}
	tokens, _ := hclsyntax.LexTemplate(src, name, hcl.InitialPos)
	if diags := checkTokens(tokens); diags.HasErrors() {
		l.Report(diags...)
		return
	}

	x, diags := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
	diags = origin.WithCode(diags, fault.Syntax)

	if !diags.HasErrors() {
		diags = append(checkExpression(x), checkTemplate(x)...)
	}

	l.Report(diags...)

	if !diags.HasErrors() {
		l.site.Templates[path.Base(name)] = x
	}
}

// checkTemplate refuses functions that read: a template gets all its values by its variables, as in Terraform.
func checkTemplate(x hclsyntax.Expression) hcl.Diagnostics {
	return hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if ok && (value.ReadsMachine(call.Name) || call.Name == "templatefile" || call.Name == "sitedata") {
			return hcl.Diagnostics{
				origin.Error(
					fault.Reference,
					call.NameRange,
					fmt.Sprintf("A template cannot call %s()", call.Name),
					"Call it in the site, and give its value to the template among the variables of templatefile().",
				),
			}
		}

		return nil
	})
}
