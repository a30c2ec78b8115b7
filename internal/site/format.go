package site

import (
	"github.com/hashicorp/hcl/v2"
)

// Format gives the canonical form of a native file: what FormatFile gives, or the text as it is where that refuses.
func Format(src []byte) []byte {
	out, _ := FormatFile("", src)
	return out
}

// FormatFile gives the canonical form of a native file, or the text as it is and why: text that is over the limits
// or does not parse is not touched.
func FormatFile(name string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := parseNative(name, src); diags.HasErrors() {
		return src, diags
	}
	return layout(src), nil
}
