package nodefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestText reads regular files and other kinds. A FIFO has no process at its other end: opening it must not wait.
func TestText(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(root, "file"), []byte("text"), 0o600),
		os.WriteFile(filepath.Join(root, "bytes"), []byte("\xff"), 0o600),
		os.WriteFile(filepath.Join(root, "large"), make([]byte, Max+1), 0o600),
		os.Mkdir(filepath.Join(root, "folder"), 0o700),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	)
	must(t, err)

	for path, want := range table.YAML[map[string]struct {
		Code fault.Code
		Why  string
	}](t, `
/file: {}
/none: {code: absent, why: '/none: no such file or directory'}
/file/none: {code: absent, why: '/file/none: not a directory'}
/bytes: {code: file-unusable, why: /bytes is not UTF-8 text}
/large: {code: file-unusable, why: '/large: it has more than 2097152 bytes'}
/folder: {code: file-unusable, why: '/folder: it is a folder, not a file'}
/fifo: {code: file-unusable, why: '/fifo: it is a FIFO, not a file'}
`) {
		text, f := Root(root).Text(path)
		switch {
		case want.Code == "" && (f != nil || text != "text"):
			t.Errorf("%s: got %q, %v; want its text", path, text, f)
		case want.Code != "" && (f == nil || f.Code != want.Code || f.Why != want.Why):
			t.Errorf("%s: got %q, %v; want %s: %s", path, text, f, want.Code, want.Why)
		}

		if got := Root(root).TextIfReadable(path); got != "" && want.Code != "" || got != "text" && want.Code == "" {
			t.Errorf("TextIfReadable(%s): got %q, want the text of a readable file and \"\" otherwise", path, got)
		}
	}
}

// TestLinkBelowARoot holds that an absolute link of an image is read inside the image, and never outside of it.
func TestLinkBelowARoot(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "rack.json")
	osfile.Write(t, outside, "of the host", 0o644)
	osfile.WriteTree(t, root, map[string]string{
		"data/rack.json": "of the image",
		"in":             "-> /data/rack.json", "out": "-> " + outside, "up": "-> ../../../../../../../.." + outside,
	})

	if got, f := Root(root).Text("/in"); f != nil || got != "of the image" {
		t.Errorf("a link inside: got %q, %v; want the image's file", got, f)
	}
	for _, name := range []string{"/out", "/up"} {
		if got, f := Root(root).Text(name); f == nil || f.Code != fault.Absent {
			t.Errorf("%s, a link out of the root: got %q, %v; want code %q", name, got, f, fault.Absent)
		}
	}
}

// TestFailureOfFileSystem: an error of a device or a server may pass, so a boot tries again.
func TestFailureOfFileSystem(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]fault.Code{
		unix.EIO: fault.NoAnswer, unix.ENOTCONN: fault.NoAnswer, unix.ESTALE: fault.NoAnswer,
		unix.ELOOP: fault.FileUnusable, unix.ENOENT: fault.Absent, unix.EACCES: fault.Denied,
	} {
		f := Failure("/etc/x", &fs.PathError{Op: "read", Path: "/root/etc/x", Err: err})
		asRoot := strings.Contains(f.Next, "Run as root")
		if f.Code != want || asRoot && os.Geteuid() == 0 || want == fault.NoAnswer && f.Next == "" {
			t.Errorf("%v: got %s and next step %q, want %s, and a step that helps", err, f.Code, f.Next, want)
		}
	}
}
