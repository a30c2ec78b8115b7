package eval

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/lang/value"
)

// TokenName returns NAME of credential("NAME"). The loader refuses any other form of a cluster's token.
func TokenName(x hclsyntax.Expression) (string, bool) {
	call, ok := value.Unwrap(x).(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "credential" || len(call.Args) != 1 {
		return "", false
	}
	name, diags := call.Args[0].Value(nil)
	if diags.HasErrors() || !isKnownText(name) {
		return "", false
	}

	return name.AsString(), true
}
