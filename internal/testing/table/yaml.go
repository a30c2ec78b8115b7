package table

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// YAML returns the cases in a text of YAML. It suits cases with texts of several lines, and cases of which each sets
// few of many fields. A field that the type does not have fails the test.
func YAML[T any](t testing.TB, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("the cases of the test: %v, in\n%s", err, text)
	}

	return out
}

// Lines returns the lines of a text, without the line breaks around it.
func Lines(text string) []string { return strings.Split(strings.Trim(text, "\n"), "\n") }
