package kubelet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestWithhold checks that a withheld file takes what is added to it as the file does: an assignment behind a quote
// that is not closed, or behind a backslash at the end, is a part of the value before.
func TestWithhold(t *testing.T) {
	files := table.YAML[[]string](t, `
- ''
- "A=x\n"
- |
  # c
  A=x
- |
  # c \
  A=x
- |
  ; c
  # d \
- |
  DB="x
- "DB='x\r\n"
- DB="
- |
  DB="x
  y" "z
- DB=x \
- DB="x \
- |
  export DB="x
- export DB=x \
- "QUJD==\n"
- |
  QUJD== \
- "=x\n"
- "A=\n"
- |-
  A=""
  B=x
- |
  a line
  A=x
`)
	isShown := func(name string) bool { return name == "FLAGS" }

	for _, text := range files {
		for _, text := range []string{text, "FLAGS=--v=2\n" + text} {
			env, err := ParseEnvFile(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			var hidden []string
			shown, err := env.Withhold(isShown, func(part string) string {
				hidden = append(hidden, part)
				return fmt.Sprintf("<%d>", len(hidden)-1)
			})
			if err != nil {
				t.Errorf("%q: got error %v, want none", text, err)
			}
			restored := shown
			for i, part := range hidden {
				restored = strings.Replace(restored, fmt.Sprintf("<%d>", i), part, 1)
			}
			if restored != text {
				t.Errorf("%q: got %q, which is %q; want the text", text, shown, restored)
			}

			want, got := add(t, text), add(t, shown)
			if got != want {
				t.Errorf("%q, as %q: an added variable is read: got %t, want %t", text, shown, got, want)
			}
		}
	}
}

// add reports whether a variable that is added to a file is read.
func add(t *testing.T, text string) bool {
	t.Helper()
	env, err := ParseEnvFile(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	flags, err := ParseFlags("--v=3")
	must(t, err)

	return env.Set("ADDED", flags) == nil
}
