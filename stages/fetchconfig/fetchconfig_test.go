package fetchconfig

import (
	"errors"
	"testing"
)

// TestDescribeText checks that for a text that begins as JSON the place of the mistake is reported.
func TestDescribeText(t *testing.T) {
	yaml := errors.New("not YAML")
	for text, want := range map[string]string{
		"{\"a\": 1}\n]\n": "line 2, column 1: invalid character ']' after top-level value",
		"[1,\n  2":        "line 2, column 3: unexpected end of JSON input",
		"a: [":            "not YAML",
		"":                "not YAML",
		"{a: [}":          "line 1, column 2: invalid character 'a' looking for beginning of object key string",
	} {
		if got := describeText(text, yaml); got != want {
			t.Errorf("describeText(%q): got %q, want %q", text, got, want)
		}
	}
}
