package site

import (
	"fmt"
	"path"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
)

// template parses a template of templatefile(), and keeps it by its name without the folder.
func (l *loader) template(name string, src []byte) {
	if diags := boundedTemplate(name, src); diags.HasErrors() {
		l.add(diags...)
		return
	}

	if _, ok := l.site.Templates[path.Base(name)]; ok {
		l.errorf(fault.Duplicate, fileRange(name), "Two templates of one name",
			"templatefile() finds a template by its name without the folder. Rename one.")
		return
	}

	x, diags := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
	diags = origin.WithCode(diags, fault.Syntax)

	if !diags.HasErrors() {
		diags = append(checkExpression(x), checkTemplate(x)...)
	}

	l.add(diags...)
	if !diags.HasErrors() {
		l.site.Templates[path.Base(name)] = value.Prepare(x)
	}
}

// boundedTemplate is bounded for the text of a template.
func boundedTemplate(name string, src []byte) hcl.Diagnostics {
	if diags := boundedText(name, src); diags.HasErrors() {
		return diags
	}

	tokens, _ := hclsyntax.LexTemplate(src, name, hcl.InitialPos)
	if len(tokens) > maxTokens {
		return hcl.Diagnostics{tooManyTokens(tokens[maxTokens].Range)}
	}

	return nil
}

// checkTemplate refuses functions that read: all that a template needs comes in by its variables, as in Terraform.
func checkTemplate(x hclsyntax.Expression) hcl.Diagnostics {
	return hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if !ok {
			return nil
		}

		switch call.Name {
		case "file", "fileexists", "credential", "templatefile":
			return hcl.Diagnostics{origin.Error(fault.Reference, call.NameRange,
				fmt.Sprintf("A template cannot call %s()", call.Name),
				"Call it in the site, and give its value to the template among the variables of templatefile().")}
		}

		return nil
	})
}
