package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
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

// noFunction says why Terraform's function of that name is not there, or which was meant.
func noFunction(name string, known []string) string {
	switch {
	case slices.Contains([]string{"timestamp", "plantimestamp", "uuid", "uuidv5", "bcrypt"}, name):
		return "A plan has no clock and no randomness: on the same node it is the same each time."
	case strings.HasPrefix(name, "file") || name == "abspath" || name == "pathexpand":
		return "Of the node's files there are file(PATH), fileexists(PATH) and stage \"fetch-config\"; of the site's, templatefile(NAME, VARS)."
	case slices.Contains([]string{"env", "getenv", "get_env"}, name):
		return "The environment is not read. Declare a variable, which a credential prelet.var.NAME, the kernel command line or a vars file gives."
	case slices.Contains([]string{"md5", "sha1", "sha512", "base64sha256", "base64sha512"}, name):
		return "Of digests there is sha256."
	case slices.Contains([]string{"sensitive", "nonsensitive", "issensitive"}, name):
		return "What comes from a credential is a secret, and stays one. A variable is with sensitive = true."
	}
	if near := schema.Nearest(name, known); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "The reference of functions lists those that there are (`prelet schema`)."
}
