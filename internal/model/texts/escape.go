// Package texts recognises the kind of a file, finds the known word that is nearest to a misspelt one, escapes and
// quotes texts from outside, and compiles patterns at first use.
package texts

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// IsVisible reports whether a rune is shown by terminals and does not control them: not a control character (C0, DEL,
// C1), a character that changes the direction of text, a joiner, or a character without width.
func IsVisible(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	return unicode.IsPrint(r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Escape returns s with escapes for invisible characters: \x1b, \u202e, and \xff for a byte that is not UTF-8. From
// DEL on these are the escapes of JSON, since s may be JSON. Line breaks and tabs stay.
func Escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n', r == '\t', IsVisible(r):
			b.WriteString(s[i : i+size])
		default:
			b.WriteString(escapeRune(r))
		}
		i += size
	}
	return b.String()
}

// EscapeLine is Escape for one line: line breaks and tabs are escaped as well.
func EscapeLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Escape(s))
}

// escapeRune returns the escape of a rune: that of JSON, except for characters that JSON always escapes.
func escapeRune(r rune) string {
	switch {
	case r < 0x20:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// QuoteShort quotes a name from outside for a message, of which it needs 60 characters at most.
func QuoteShort(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}

// QuoteAll returns texts in quotes, with commas between them.
func QuoteAll(texts []string) string {
	q := make([]string, len(texts))
	for i, text := range texts {
		q[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(q, ", ")
}

// notYAML are the characters that JSON may contain and that YAML readers refuse or change.
var notYAML = LazyRegexp("[\u007f-\u009f\ufeff\ufffe\uffff]")

// EscapeForYAML escapes characters inside of the strings of a JSON text, which remains the same JSON.
func EscapeForYAML(text string) string {
	return notYAML().ReplaceAllStringFunc(text, func(s string) string {
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Sprintf(`\u%04x`, r)
	})
}
