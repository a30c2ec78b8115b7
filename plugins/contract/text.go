package contract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// notInLabel matches a run of characters that become one dash in a label.
var notInLabel = newForm(`[^A-Za-z0-9._]+`)

// LabelValue returns a valid label value for any text: each run of other characters becomes one dash, the result has
// at most 63 bytes and begins and ends with a letter or digit. Case is kept. A text without letters and digits
// becomes empty.
func LabelValue(s string) string {
	out := strings.Trim(notInLabel().ReplaceAllString(s, "-"), "-._")

	return strings.TrimRight(out[:min(len(out), MaxName)], "-._")
}

// OneLine returns a text as one printable line of at most MaxText bytes.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if isHidden(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")

	return Shorten(s, MaxText-len("…"))
}

// isPrintable reports whether a text can be shown on one line, without control and invisible characters.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, isHidden)
}

// isHidden reports whether a character controls a terminal, changes the direction of text, or is invisible: it could
// hide in a text that a person compares.
func isHidden(r rune) bool {
	return unicode.In(
		r,
		unicode.Cc,
		unicode.Cf,
		unicode.Co,
		unicode.Cs,
		unicode.Zl,
		unicode.Zp,
		unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point,
		unicode.Noncharacter_Code_Point,
	)
}

// Shorten returns s, or if it is longer its first n bytes and an ellipsis, without breaking a character.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}

	return strings.ToValidUTF8(s[:n], "") + "…"
}
