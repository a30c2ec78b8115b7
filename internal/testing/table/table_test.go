package table

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type row struct {
	Name  string
	Mode  os.FileMode
	Wait  Duration
	Words []string
}

func TestYAML(t *testing.T) {
	got := YAML[[]row](t, `
- {name: one, mode: 0o640, wait: 1m30s, words: [a, "b\n"]}
# a case of its own
- name: two
`)
	want := []row{{"one", 0o640, Duration{90 * time.Second}, []string{"a", "b\n"}}, {Name: "two"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	got := YAML[map[string]row](t, `
'{dir}/a': {name: '{dir} {other}', wait: 2s}
'{"q"}': {words: ['{"q"}{dir}']}
`, "dir", "/x: \"y\"\n", `"q"`, "'<>")
	want := map[string]row{
		"/x: \"y\"\n/a": {Name: "/x: \"y\"\n {other}", Wait: Duration{2 * time.Second}},
		"'<>":           {Words: []string{"'<>/x: \"y\"\n"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases with names (-want +got):\n%s", diff)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"a: {nam: one}":             `unknown field "nam"`,
		"a: {name: one, name: two}": `"name" already set`,
		"a: {}\na: {}":              `"a" already set`,
		"a: {wait: soon}":           `invalid duration "soon"`,
		"a: {mode: rw}":             "cannot unmarshal string",
	} {
		if _, err := read[map[string]row](text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestLines(t *testing.T) {
	if got := Lines("\na\n\n b\n"); !slices.Equal(got, []string{"a", "", " b"}) {
		t.Errorf("got %q, want three lines", got)
	}
}
