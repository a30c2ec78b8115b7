package contract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// LabelValue makes a label's value out of any text: each run of what a label cannot hold becomes one dash, at most 63
// bytes, letters or digits at the ends. Case is kept; what holds no letter or digit becomes empty.
func LabelValue(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-' && !dash:
			b.WriteRune(r)
			dash = r == '-'
		case !dash:
			b.WriteByte('-')
			dash = true
		}
	}
	out := strings.Trim(b.String(), "-._")
	return strings.TrimRight(out[:min(len(out), MaxName)], "-._")
}

// OneLine makes a text of one line that a terminal can show, and that is not too long.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if isHidden(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > MaxText {
		s = strings.ToValidUTF8(s[:MaxText-3], "") + "…"
	}
	return s
}

// printable tells whether a text can be shown on a terminal, on one line, with nothing in it that nobody sees.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, isHidden)
}

// isHidden tells whether a character acts on a terminal, turns the direction of what is read, or has no form of its own: it
// could hide in a text that a person compares, or carry another text.
func isHidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

// shorten returns s, or of a longer one at most n bytes and an ellipsis, without breaking a character.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}

	return strings.ToValidUTF8(s[:n], "") + "…"
}
