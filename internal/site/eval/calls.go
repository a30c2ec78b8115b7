package eval

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/schema"
)

// calls refuses the names of functions that there are not, here and not when they are called: try() and can() would
// excuse them on every machine, and HCL suggests another name each time.
func (e *Eval) calls(x hclsyntax.Expression) hcl.Diagnostics {
	var diags hcl.Diagnostics
	known := e.functions()
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		if c, ok := n.(*hclsyntax.FunctionCallExpr); ok {
			if _, ok := known[c.Name]; !ok {
				diags = append(diags, origin.Error(fault.Reference, c.NameRange, fmt.Sprintf("There is no function %q", c.Name),
					"%s", noFunction(c.Name, slices.Sorted(maps.Keys(known)))))
			}
		}
		return nil
	})
	return diags
}

func noFunction(name string, known []string) string {
	if near := schema.Nearest(name, known); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "The reference of functions lists those that there are (`prelet schema`)."
}
