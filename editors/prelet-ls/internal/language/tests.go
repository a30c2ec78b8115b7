package language

import (
	hclschema "github.com/hashicorp/hcl-lang/schema"

	"github.com/prelet/prelet/internal/lab/testfile"
)

// testFile returns the schema of a *.prelettest.hcl file.
func testFile() *hclschema.BodySchema {
	body := hclschema.NewBodySchema()
	for _, b := range testfile.Blocks() {
		body.Blocks[b.Type] = describeBlock(b)
	}

	return body
}
