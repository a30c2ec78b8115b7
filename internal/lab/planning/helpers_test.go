package planning

import (
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/osfile"
)

func newTestEnv() *machine.Env {
	return &machine.Env{
		Version: "0.1.0", Getenv: func(string) string { return "" }, Redactor: secret.NewRedactor(),
		Say: func(string) {},
	}
}

// writeTestFile writes a file into a new folder and returns its path.
func writeTestFile(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	osfile.WriteTree(t, dir, map[string]string{name: text})

	return filepath.Join(dir, name)
}
