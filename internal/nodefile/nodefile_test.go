package nodefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestText reads what is a file and what is none. A FIFO has nobody at its other end: to open it must not wait.
func TestText(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(root, "file"), []byte("text"), 0o600),
		os.WriteFile(filepath.Join(root, "bytes"), []byte("\xff"), 0o600),
		os.WriteFile(filepath.Join(root, "large"), make([]byte, Max+1), 0o600),
		os.Mkdir(filepath.Join(root, "folder"), 0o700),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]struct {
		code fault.Code
		why  string
	}{
		"/file":      {"", ""},
		"/none":      {fault.Absent, "/none: no such file or directory"},
		"/file/none": {fault.Absent, "/file/none: not a directory"},
		"/bytes":     {fault.FileUnusable, "/bytes is no UTF-8 text"},
		"/large":     {fault.FileUnusable, "/large is larger than 2 MiB"},
		"/folder":    {fault.FileUnusable, "/folder is a folder, not a file"},
		"/fifo":      {fault.FileUnusable, "/fifo is a FIFO, not a file"},
	} {
		text, f := Root(root).Text(path)
		switch {
		case want.code == "" && (f != nil || text != "text"):
			t.Errorf("%s: got %q, %v; want its text", path, text, f)
		case want.code != "" && (f == nil || f.Code != want.code || f.Why != want.why):
			t.Errorf("%s: got %q, %v; want %s: %s", path, text, f, want.code, want.why)
		}

		if got := Root(root).TextIfReadable(path); got != "" && want.code != "" || got != "text" && want.code == "" {
			t.Errorf("TextIfReadable(%s): got %q, want the text of a readable file and \"\" otherwise", path, got)
		}
	}
}
