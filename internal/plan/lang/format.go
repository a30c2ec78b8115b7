package lang

import (
	"bytes"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns the canonical form of a native file as FormatFile does, and src unchanged where that refuses it.
func Format(src []byte) []byte {
	out, _ := FormatFile("", src)

	return out
}

// FormatFile returns the canonical form of a native file, the one of `terraform fmt`: only spaces between tokens
// change. A file that exceeds the limits or has a syntax error is returned unchanged, with diagnostics. So is, without
// diagnostics, a file of which hclwrite would change more: it writes the index in "1 . 2" as a number.
func FormatFile(name string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := parseNative(name, src); diags.HasErrors() {
		return src, diags
	}

	out := hclwrite.Format(src)
	before, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	after, _ := hclsyntax.LexConfig(out, name, hcl.InitialPos)
	isSame := func(a, b hclsyntax.Token) bool { return a.Type == b.Type && bytes.Equal(a.Bytes, b.Bytes) }
	if !slices.EqualFunc(before, after, isSame) {
		return src, nil
	}

	return out, nil
}
