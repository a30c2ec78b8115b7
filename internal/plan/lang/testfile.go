package lang

import (
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TestFolder is the folder of a site for test files that are not next to the site's files.
const TestFolder = "tests"

// IsTestFile reports whether a name is that of a file of tests, *.prelettest.hcl, and no dotfile.
func IsTestFile(name string) bool {
	base := path.Base(name)

	return strings.HasSuffix(base, testSuffix) && !strings.HasPrefix(base, ".")
}

// ParseBlocks parses a file of a site or of tests within the limits, and checks its expressions, but not which blocks
// and arguments there are. The body is nil after a syntax error.
func ParseBlocks(name string, src []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	body, diags := parseNative(name, src)
	if diags.HasErrors() {
		return nil, diags
	}

	return body, append(diags, checkExpressions(body)...)
}
