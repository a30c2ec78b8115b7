// Package osfile reads and writes files for a test, which ends if that fails. It is for tests only.
package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Read returns the content of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("got %v, want a file", err)
	}

	return text
}

// Write writes a file, and makes the folders above it with mode 0755. A file that exists keeps its mode.
func Write[T ~string | ~[]byte](t testing.TB, path string, text T, mode fs.FileMode) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), mode)
	}
	if err != nil {
		t.Fatalf("got %v, want the file to be written", err)
	}
}

// WriteTree writes files by their paths below a folder, with mode 0644. A text "-> TARGET" is a link.
func WriteTree(t testing.TB, folder string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		path := filepath.Join(folder, name)
		target, isLink := strings.CutPrefix(text, "-> ")
		if !isLink {
			Write(t, path, text, 0o644)
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
			t.Fatalf("got %v, want the link to be made", err)
		}
	}
}

// Golden compares a text with a file, which it writes first if the test has -update.
func Golden[T ~string | ~[]byte](t testing.TB, path string, got T, isUpdate bool) {
	t.Helper()
	if isUpdate {
		Write(t, path, got, 0o644)
	}
	if diff := cmp.Diff(string(Read(t, path)), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

// Inode is a file, a folder or a link, which stays the same until it is touched.
type Inode struct {
	Mode     fs.FileMode
	UID, GID uint32
	Number   uint64
	Modified time.Time
	Content  string // of a regular file
}

// Look returns all that is below a folder by its path there, "" for the folder itself, without some folders.
func Look(folder string, except ...string) (map[string]Inode, error) {
	all := map[string]Inode{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains(except, path) {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}

		st := info.Sys().(*syscall.Stat_t)
		i := Inode{Mode: info.Mode(), UID: st.Uid, GID: st.Gid, Number: st.Ino, Modified: info.ModTime()}
		if i.Mode.IsRegular() {
			text, err := os.ReadFile(path) //nolint:gosec // a tree of the test's own
			if err != nil {
				return err
			}
			i.Content = string(text)
		}
		all[strings.TrimPrefix(path, folder)] = i

		return nil
	})

	return all, err
}
