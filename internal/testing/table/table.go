// Package table reads the cases of a test from a text of YAML. It is for tests only.
package table

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// YAML returns the cases in a text. A field that the type does not have, and a key that is there twice, fail the test.
// {NAME} is replaced in the texts, where names have NAME and the text.
func YAML[T any](t testing.TB, text string, names ...string) T {
	t.Helper()
	out, err := read[T](text, names)
	if err != nil {
		t.Fatalf("the cases of the test: %v, in\n%s", err, text)
	}

	return out
}

func read[T any](text string, names []string) (out T, err error) {
	if err = yaml.UnmarshalStrict([]byte(text), &out); err != nil || len(names) == 0 {
		return out, err
	}
	for i, name := range names {
		text, err := json.Marshal(name)
		if err != nil {
			return out, err
		}
		if names[i] = string(text[1 : len(text)-1]); i%2 == 0 {
			names[i] = "{" + names[i] + "}"
		}
	}
	doc, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	out = *new(T) // a map would keep its entries
	err = json.Unmarshal([]byte(strings.NewReplacer(names...).Replace(string(doc))), &out)

	return out, err
}

// Duration is one such as 1m30s.
type Duration struct{ time.Duration }

func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))

	return err
}

// Lines returns the lines of a text, without the line breaks around it.
func Lines(text string) []string { return strings.Split(strings.Trim(text, "\n"), "\n") }
