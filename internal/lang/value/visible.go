package value

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// IsVisible reports whether a rune shows itself, and acts on no terminal: no control character (C0, DEL, C1), none that
// changes the direction of text, joins, is a space that is none, or has no width.
func IsVisible(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Visible is a text with what is not visible written as an escape: \x1b, \u202e, and \xff for a byte that is not UTF-8. From DEL
// on they are the escapes of JSON, whose texts may pass here. Line breaks and tabs stay.
func Visible(s string) string {
	if isVisible(s) {
		return s
	}
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

// VisibleLine is Visible for what stands in one line: line breaks and tabs are escaped as well.
func VisibleLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Visible(s))
}

func isVisible(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || r != '\n' && r != '\t' && !IsVisible(r) {
			return false
		}
	}
	return true
}

// escapeRune writes a rune as JSON would, but for the characters that JSON never has as they are.
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
