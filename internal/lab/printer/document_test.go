package printer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/secret"
)

// TestWriteDocument redacts secrets that are also words of JSON, keys of the format and numbers.
func TestWriteDocument(t *testing.T) {
	r := secret.NewRedactor()
	for _, secret := range []string{"true", "null", "mode", "2026", "CANARY-key", `C"\\ANARY`} {
		r.Add([]byte(secret))
	}
	document := json.RawMessage(`{"mode":true,"byte":2026,"of":null,"CANARY-key":["true","in 2026","C\"\\\\ANARY\u202e"]}`)
	want := `{"mode":true,"byte":2026,"of":null,"(sensitive)":["(sensitive)","in (sensitive)",` +
		`"(sensitive)\u202e"]}` + "\n"

	var b bytes.Buffer
	if err := WriteDocument(NewScreen(&b, r), document, r); err != nil || b.String() != want {
		t.Errorf("got %s, %v\nwant %s, no error", b.String(), err, want)
	}
}

// TestWriteYAML: YAML has the lines of a text, which may be commands for a terminal or for a GitHub runner.
func TestWriteYAML(t *testing.T) {
	var b bytes.Buffer
	err := WriteYAML(&b, map[string]string{"a": "x\n::stop-commands::y\n", "b": "\u202e\x1b[2J"}, secret.NewRedactor())
	got := b.String()
	if err != nil || !strings.HasPrefix(got, "---\na: |") || strings.Contains(got, "\n  ::") ||
		strings.ContainsAny(got, "\u202e\x1b") {
		t.Errorf("got %q, %v; want YAML without commands", got, err)
	}
}

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
		if got := string(mapStrings([]byte(text), change, change)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
