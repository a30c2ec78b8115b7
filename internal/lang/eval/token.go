package eval

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
)

// TokenName is NAME of credential("NAME"). The loader has refused any other form of a cluster's token.
func TokenName(x hclsyntax.Expression) (string, bool) {
	call, ok := value.Unwrap(x).(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "credential" || len(call.Args) != 1 {
		return "", false
	}
	v, d := call.Args[0].Value(nil)
	if d.HasErrors() || !v.IsKnown() || v.IsNull() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}
