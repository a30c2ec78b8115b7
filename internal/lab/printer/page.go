package printer

import (
	"io"
	"strings"
)

// page is a text for people in the making.
type page struct {
	strings.Builder
	Style
}

func (b *page) flush(w io.Writer) error {
	_, err := io.WriteString(w, b.String())

	return err
}

func (b *page) writeLine(line string) {
	b.WriteString(line + "\n")
}

// writeLines writes the first line after one prefix and the others after another.
func (b *page) writeLines(first, next string, lines []string) {
	for _, l := range lines {
		b.writeLine(first + l)
		first = next
	}
}

// writeText writes a text after an indent, broken at spaces.
func (b *page) writeText(indent, text string) {
	b.writeLines(indent, indent, b.wrap(text, b.Width-len(indent)))
}
