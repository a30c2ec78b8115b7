package userfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestOpen refuses what a read would wait for: a pipe without a writer, and files of /proc, which are regular.
func TestOpen(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, "/dev/zero", "/proc/self/status"} {
		if f, err := Open(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: got %v, %v; want %v", path, f, err, ErrNotRegular)
		}
	}
}

// TestWritePage writes where a user named a file. Whatever else has the name stays: as root, /dev/null would become
// a file of one user, and the machine would be broken.
func TestWritePage(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	link := filepath.Join(dir, "stdout")
	file := filepath.Join(dir, "file")
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}
	for _, err := range []error{
		syscall.Mkfifo(pipe, 0o600),
		os.Symlink("/proc/self/fd/1", link),
		os.WriteFile(file, []byte("old"), 0o600),
	} {
		must(t, err)
	}

	for path, want := range map[string]fs.FileMode{pipe: fs.ModeNamedPipe, link: fs.ModeSymlink, dir: fs.ModeDir} {
		err := WritePage(path, nil, write)
		st, statErr := os.Lstat(path)
		if !errors.Is(err, ErrNotRegular) || statErr != nil || st.Mode().Type() != want {
			t.Errorf("%s: got error %v, then %v, %v; want error %q, and type %v", path, err, st, statErr, ErrNotRegular, want)
		}
	}

	err := WritePage(file, nil, write)
	got, readErr := os.ReadFile(file)
	if err != nil || readErr != nil || string(got) != "new" {
		t.Errorf("a file: got %v, then %q, %v; want no error and \"new\"", err, got, readErr)
	}
}

// TestWritePageThroughLink follows a link to a regular file, as a shell does: the link stays, and the file has the new
// content. As root it does not follow a link that another user may have made, nor one to an open file of a process.
func TestWritePageThroughLink(t *testing.T) {
	dir := t.TempDir()
	others := filepath.Join(dir, "others")
	osfile.WriteTree(t, dir, map[string]string{
		"pages/file": "old",
		"link":       "-> pages/file",
		"second":     "-> " + filepath.Join(dir, "link"),
		"dangling":   "-> /nowhere",
		"loop":       "-> loop",
	})
	osfile.WriteTree(t, others, map[string]string{"link": "-> ../pages/file"})
	open, err := os.OpenFile(filepath.Join(dir, "open"), os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer open.Close()
	must(t, os.Symlink(fmt.Sprintf("/proc/self/fd/%d", open.Fd()), filepath.Join(dir, "stdout")))

	wants := map[string]string{
		"link": "", "second": "", "dangling": "no such file", "loop": "too many",
		"stdout": "not a regular file; standard output is -",
	}
	if os.Geteuid() == 0 {
		must(t, os.Chown(others, 1000, 1000))
		wants["others/link"] = "name the file itself"
	}
	for name, want := range wants {
		err := WritePage(filepath.Join(dir, name), nil, func(w io.Writer) error {
			_, err := io.WriteString(w, name)
			return err
		})
		st, statErr := os.Lstat(filepath.Join(dir, name))
		if statErr != nil || st.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s: then got %v, %v; want the link", name, st, statErr)
		}
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v; want an error with %q", name, err, want)
			}
			continue
		}
		got, readErr := os.ReadFile(filepath.Join(dir, "pages/file"))
		if err != nil || readErr != nil || string(got) != name {
			t.Errorf("%s: got %v, then %q, %v; want no error and %q", name, err, got, readErr, name)
		}
	}
}

// TestWriteReportToStdout names the way out of a flag that has no - for standard output.
func TestWriteReportToStdout(t *testing.T) {
	want := "/dev/null: not a regular file; name a file, or leave it out"
	if err := WriteReport("/dev/null", nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v; want %q", err, want)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
