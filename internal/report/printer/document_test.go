package present

import (
	"strings"
	"testing"
)

// TestMapStrings changes what is in strings, and nothing else.
func TestMapStrings(t *testing.T) {
	change := func(s string) string { return strings.ReplaceAll(s, `pa"ss\w`, "X<&>") }
	for text, want := range map[string]string{
		"":                               "",
		"{\"a\":1}\n":                    "{\"a\":1}\n",
		`{"b":"pa\"ss\\w","a":"\\"}`:     `{"b":"X<&>","a":"\\"}`,
		`["pa\u0022ss\u005cw", "\"a\n"]`: `["X<&>", "\"a\n"]`,
		`{"pa\"ss\\w":{"n":1.0e3}}`:      `{"X<&>":{"n":1.0e3}}`,
		`"pa\"ss\`:                       `"pa\"ss\`,
		`no "JSON\x"`:                    `no "JSON\x"`,
	} {
		if got := string(MapStrings([]byte(text), change)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
