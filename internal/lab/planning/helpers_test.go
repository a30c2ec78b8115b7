package planning

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
)

func newTestEnv() *machine.Env {
	return &machine.Env{
		Version: "0.1.0", Getenv: func(string) string { return "" }, Redactor: secret.NewRedactor(),
		Say: func(string) {},
	}
}

// putTestFiles writes files into a folder.
func putTestFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// writeTestFile writes a file into a new folder and returns its path.
func writeTestFile(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	putTestFiles(t, dir, map[string]string{name: text})

	return filepath.Join(dir, name)
}
