package nodefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestGlob searches a folder with many names, and one that must not be entered, also through a link.
func TestGlob(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/1.json", "b/2.json", ".c/3.json", "b/.4.json", "shut/5.json"} {
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)))
	}
	must(t, os.Symlink("../shut", filepath.Join(dir, "a", "link")))
	for i := range MaxGlobbed + 1 {
		must(t, os.MkdirAll(filepath.Join(dir, "many", fmt.Sprint(i)), 0o755))
	}

	for pattern, want := range table.YAML[map[string]string](t, `
a/1.json: a/1.json
a/none: ''
'[ab]/*.json': a/1.json b/2.json
'[!ms]/*.json': a/1.json b/2.json
.*/*: .c/3.json
b/.*: b/.4.json
a/*.json/*: ''
none/*: ''
a/../b/*: b/2.json
'[': 'error: a bracket is not closed'
shut/*: 'error: shut'
a/link/*: 'error: shut'
a/*/*: 'error: shut'
many/*/x: 'error: it would search more than 10000 names'
`) {
		enter := func(folder string) error {
			if filepath.Base(folder) == "shut" {
				return errors.New("shut")
			}
			return nil
		}
		for from, pattern := range map[string]string{dir: pattern, "/nothing": filepath.Join(dir, pattern)} {
			if strings.Contains(pattern, "/..") {
				continue
			}
			found, err := Root("").Glob(from, pattern, enter)
			got := strings.ReplaceAll(strings.Join(found, " "), dir+"/", "")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != want {
				t.Errorf("%s: got %q; want %q", pattern, got, want)
			}
		}
	}
}
