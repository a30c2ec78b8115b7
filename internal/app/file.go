package app

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// errNotRegular is the error of a path that is not a regular file.
var errNotRegular = errors.New("it is no regular file")

// openRegular opens a regular file for reading, and nothing else: opening a pipe would wait for its writer.
func openRegular(path string) (*os.File, error) {
	look, err := nodefile.Find(path, nodefile.FollowAll) // links of whoever typed it
	if err != nil {
		return nil, err
	}
	defer look.Close()
	if !look.Mode().IsRegular() {
		return nil, errNotRegular
	}
	return look.Open()
}

// createFile writes a new file, and the folders above it. For a file that exists already, the error is fs.ErrExist. A
// file that cannot be written to its end is removed, so that the next try can create it.
func createFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}

	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // the first error counts
	}
	return err
}
