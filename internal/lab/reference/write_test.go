package reference

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestReferenceIsFresh compares docs/ with the pages that the code generates.
func TestReferenceIsFresh(t *testing.T) {
	pages := referencePages()
	const help = "run `make generate` and commit what changes"

	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join("../../../docs", filepath.FromSlash(name)))
		switch {
		case err != nil:
			t.Errorf("%s: %s", err, help)
		case string(got) != want:
			t.Errorf("docs/%s is stale: %s", name, help)
		}
	}

	for _, dir := range []string{"reference", "codes"} {
		files, err := filepath.Glob(filepath.Join("../../../docs", dir, "*"))
		must(t, err)
		for _, p := range files {
			if name := dir + "/" + filepath.Base(p); pages[name] == "" {
				t.Errorf("docs/%s is not generated any more: remove it", name)
			}
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := Write(dir); err != nil {
		t.Fatalf("Write: %v, want no error", err)
	}
	pages := referencePages()
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v, %d bytes; want %d", name, err, len(got), len(want))
		}
	}

	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if err := Write(file); fault.CodeOf(err) != fault.CannotWrite {
		t.Errorf("Write below a file: %v, want code %q", err, fault.CannotWrite)
	}
}
