package secret

import (
	"strings"

	"github.com/prelet/prelet/internal/model/texts"
)

var (
	headerField = texts.LazyRegexp(`\bstaticPodURLHeader\\?["']?[ \t]*:`)
	// An element of a list, unless it has an expression.
	headerValue = texts.LazyRegexp(`(?m)(?:[\[,]\s*|(?:^|:)[ \t]*-[ \t]+)` +
		`(?:\\?"([^"\\$\n]+)\\?"|'([^'$\n]+)'|([^\s"'\\,;:$%{}()\[\]-][^\s"'\\,;$%{}()\[\]]*)[ \t]*)(?:[,\]}]|\r?$)`)
)

// findHeaders finds the values of staticPodURLHeader in a document, YAML or JSON, that a text contains.
func findHeaders(text string) (out [][2]int) {
	for _, field := range headerField().FindAllStringIndex(text, -1) {
		at, end := field[1], field[1]+len(headersAt(text, field[0], field[1]))
		for {
			m := headerValue().FindStringSubmatchIndex(text[at:end])
			if m == nil {
				break
			}
			start, stop := at+max(m[2], m[4], m[6]), at+max(m[3], m[5], m[7])
			out = append(out, [2]int{start, stop})
			at = stop // the text between two elements is a part of both
		}
	}

	return out
}

// headersAt returns the text of the value of a field: the braces behind it, or the lines that are indented more than
// its own.
func headersAt(text string, field, start int) string {
	rest := text[start:]
	if strings.HasPrefix(strings.TrimSpace(rest), "{") {
		depth := 0
		for i, c := range rest {
			switch c {
			case '{':
				depth++
			case '}':
				depth--
			}
			if c == '}' && depth <= 0 {
				return rest[:i]
			}
		}

		return rest
	}

	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
	own := indent(text[strings.LastIndexByte(text[:field], '\n')+1:])
	size := 0
	for line := range strings.Lines(rest) {
		if size > 0 && strings.TrimSpace(line) != "" && indent(line) <= own {
			break
		}
		size += len(line)
	}

	return rest[:size]
}
