package nodefile

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestReadCommandLine(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))

	if got := Root(root).ReadCommandLine(); got != nil {
		t.Errorf("without the file: got %q, want nil", got)
	}

	for text, want := range map[string]map[string]string{
		"":                           {},
		"quiet prelet=off\n":         {"quiet": "", "prelet": "off"},
		"a=1\ta=2  b":                {"a": "2", "b": ""},
		"root=UUID=1-2 c=":           {"root": "UUID=1-2", "c": ""},
		`a="x y" "b=1 2" c=1" "2`:    {"a": "x y", "b": "1 2", "c": "1 2"},
		`prelet.var.zone="a b c`:     {"prelet.var.zone": "a b c"},
		"prelet.var.name=größe ende": {"prelet.var.name": "größe", "ende": ""},
	} {
		must(t, os.WriteFile(filepath.Join(root, "proc/cmdline"), []byte(text), 0o600))
		if got := Root(root).ReadCommandLine(); !maps.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
