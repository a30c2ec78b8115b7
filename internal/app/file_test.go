package app

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenRegular refuses what a read would wait for: a pipe without a writer, and files of /proc, which are regular.
func TestOpenRegular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", "/proc/self/status"} {
		if f, err := openRegular(path); !errors.Is(err, errNotRegular) {
			t.Errorf("%s: got %v, %v; want %v", path, f, err, errNotRegular)
		}
	}
}

// TestWriteNamed writes where a user named a file. Whatever else has the name stays: as root, /dev/null would become
// a file of one user, and the machine would be broken.
func TestWriteNamed(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
	}

	for path, want := range map[string]fs.FileMode{pipe: fs.ModeNamedPipe, link: fs.ModeSymlink, dir: fs.ModeDir} {
		err := writeNamed(path, 0o644, write)
		st, statErr := os.Lstat(path)
		if !errors.Is(err, errNotRegular) || statErr != nil || st.Mode().Type() != want {
			t.Errorf("%s: got error %v, then %v, %v; want error %q, and type %v", path, err, st, statErr, errNotRegular, want)
		}
	}

	err := writeNamed(file, 0o644, write)
	got, readErr := os.ReadFile(file)
	if err != nil || readErr != nil || string(got) != "new" {
		t.Errorf("a file: got %v, then %q, %v; want no error and \"new\"", err, got, readErr)
	}
}
