package lang

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns the canonical form of a native file as FormatFile does, and src unchanged where that refuses it.
func Format(src []byte) []byte {
	out, _ := FormatFile("", src)

	return out
}

// FormatFile returns the canonical form of a native file, the one of `terraform fmt`: only spaces between tokens
// change. A file that exceeds the limits or has a syntax error is returned unchanged, with diagnostics.
func FormatFile(name string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := parseNative(name, src); diags.HasErrors() {
		return src, diags
	}

	return hclwrite.Format(src), nil
}
