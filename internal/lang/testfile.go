package lang

import (
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// IsTestFile reports whether a name is that of a file of tests, *.prelettest.hcl, and no dotfile.
func IsTestFile(name string) bool {
	base := path.Base(name)

	return strings.HasSuffix(base, testSuffix) && !strings.HasPrefix(base, ".")
}

// ParseTest parses a file of tests within the limits of a site's file. It checks expressions as those of a site, but
// not which blocks and arguments there are.
func ParseTest(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	body, diags := parseNative(name, src)
	if diags.HasErrors() {
		return nil, diags
	}

	return body, append(diags, checkExpressions(body)...)
}
