package texts

import "testing"

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain, grün, 日本, │ … →": "plain, grün, 日本, │ … →",
		"a\nb\tc":                "a\nb\tc",
		"\x1b[2J\r\a\x00\x7f":    `\x1b[2J\x0d\x07\x00\u007f`,
		"\u009b31m":              `\u009b31m`,
		"\x9b31m":                `\x9b31m`, // C1 as one byte, on a terminal that does not know UTF-8
		"a\u202eb\u2066c\u2069":  `a\u202eb\u2066c\u2069`,
		"a\u200bb\u200d\ufeff":   `a\u200bb\u200d\ufeff`,
		"a\u00adb\u061c\u2028":   `a\u00adb\u061c\u2028`,
		"a\u3164b\u115f\ufe0f":   `a\u3164b\u115f\ufe0f`,
		"a\U000e0041":            `a\udb40\udc41`,
		"\ufffd":                 "\ufffd",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got := Escape(want); got != want {
			t.Errorf("%q once more: got %q", want, got)
		}
	}
	if got, want := EscapeLine("a\nb\tc\x1b"), `a\nb\tc\x1b`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
