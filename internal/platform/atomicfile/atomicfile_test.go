package atomicfile

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
)

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	for i, mode := range []fs.FileMode{0o600, 0o644, 0o400} {
		for which, replace := range []func(string, fs.FileMode, []byte) error{File, Durable} {
			text := fmt.Sprint("text ", i, which)
			if err := replace(name, mode, []byte(text)); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(name)
			st, statErr := os.Stat(name)
			if err != nil || statErr != nil || string(got) != text || st.Mode() != mode {
				t.Errorf("%q %v, %v, %v; want %q %v", got, st.Mode(), err, statErr, text, mode)
			}
		}
	}
	if err := Durable(filepath.Join(dir, "none/b"), 0o600, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is missing: got %v, want an error", err)
	}
	if got := names(t, dir); got != "a" {
		t.Errorf("the folder: got %s; want the file alone", got)
	}
}

// TestDurableThroughLink replaces a file of a folder that an administrator has moved to another disk.
func TestDurableThroughLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "state")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := Durable(filepath.Join(link, "a"), 0o600, []byte("text")); err != nil {
		t.Errorf("through a link: got %v, want the file", err)
	}
	if got := names(t, dir); got != "a" {
		t.Errorf("the folder: got %s; want the file alone", got)
	}
}

// TestReaders opens the file all the time while it is replaced.
func TestReaders(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	texts := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<16)}
	if err := File(name, 0o600, []byte(texts[0])); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for i := range 200 {
			if err := File(name, 0o600, []byte(texts[i%2])); err != nil {
				done <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != texts[0] && string(got) != texts[1] {
			t.Fatalf("got %d bytes, %v; want one of the two contents", len(got), err)
		}
	}
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		name  string
		file  string
		write func(io.Writer) error
		want  string // DIR is the folder
	}{
		{"no folder", "none/a", nil, "folder DIR/none: no such file"},
		{"a folder is there", "sub", nil, "replace DIR/sub: "},
		{"what writes fails", "a", func(w io.Writer) error {
			_, err := io.WriteString(w, "half")
			return errors.Join(err, errors.New("no more"))
		}, "no more"},
		{"the file was closed", "a", func(w io.Writer) error {
			err := w.(target).f.Close()
			_, wrote := io.WriteString(w, "half")
			return errors.Join(err, wrote)
		}, "write DIR/a: file already closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(
				os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o600),
				os.Mkdir(filepath.Join(dir, "sub"), 0o700),
			); err != nil {
				t.Fatal(err)
			}
			if c.write == nil {
				c.write = func(io.Writer) error { return nil }
			}
			err := With(filepath.Join(dir, c.file), 0o600, c.write)
			if err == nil {
				t.Fatal("it was written")
			}
			got := strings.ReplaceAll(err.Error(), dir, "DIR")
			if !strings.Contains(got, c.want) || strings.Contains(got, "/.") {
				t.Errorf("got %q; want %q in it, and no temporary file", got, c.want)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(got) != "old" {
				t.Errorf("the file: got %q, %v; want it unchanged", got, err)
			}
			if got := names(t, dir); got != "a sub" {
				t.Errorf("the folder: got %s; want the file alone", got)
			}
		})
	}
}

// TestEdit keeps the group, by which others may read a file.
func TestEdit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file away")
	}

	name := filepath.Join(t.TempDir(), "site.hcl")
	err := errors.Join(os.WriteFile(name, nil, 0o640), os.Chown(name, 1, 60), Edit(name, []byte("new")))
	st, statErr := os.Stat(name)
	if err != nil || statErr != nil {
		t.Fatal(err, statErr)
	}
	owner := st.Sys().(*syscall.Stat_t)
	if got, want := fmt.Sprint(owner.Uid, owner.Gid, st.Mode(), st.Size()), "1 60 -rw-r----- 3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
