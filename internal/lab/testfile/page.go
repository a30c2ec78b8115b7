package testfile

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/prelet/prelet/schema"
)

// The parts of the page before and after the tables of arguments.
var (
	//go:embed page_head.txt
	pageHead string
	//go:embed page_tail.txt
	pageTail string
)

// Page returns docs/reference/tests.md.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, block := range []schema.Block{variablesBlock, runBlock, assertBlock} {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n", block.Usage(), block.Doc)
		writeFields(&b, block)
	}
	b.WriteString(pageTail)

	return b.String()
}

// writeFields writes the table of the arguments of a block.
func writeFields(b *strings.Builder, block schema.Block) {
	if len(block.Fields) == 0 {
		return
	}

	b.WriteString("\n| argument | type | default | |\n|---|---|---|---|\n")
	for _, f := range block.Fields {
		s := f.Spec()
		missing := s.DefaultText
		if s.Required {
			missing = "required"
		}
		fmt.Fprintf(
			b,
			"| `%s` | %s | %s | %s |\n",
			s.Name,
			schema.TypeName(s.Type),
			missing,
			s.Doc,
		)
	}
}
