// Package replace writes a file whole: whoever opens it, at any moment, reads what it was or what it shall be, never
// half of it. It touches that file and, while it writes, a temporary one beside it.
//
// Nothing is made durable: after a power cut the file may be the old one or empty. It is for what lies in memory, can
// be asked again, or stands under a person's eyes. What must survive is for internal/commit/generation.
package replace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File makes text the content of the file and mode its permissions, whatever the umask. A file that cannot be replaced
// stays as it was; the error names the file, or the folder that does not take a new one.
func File(name string, mode fs.FileMode, text []byte) error {
	return With(name, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// With is File for content that is written bit by bit. What write returns is returned as it is.
func With(name string, mode fs.FileMode, write func(io.Writer) error) error {
	folder, base := filepath.Split(name)
	f, err := os.CreateTemp(filepath.Clean(folder), "."+base+".*")
	if err != nil {
		return fmt.Errorf("folder %s: %w", filepath.Clean(folder), cause(err))
	}
	if err = write(target{f, name}); err == nil {
		err = at("chmod", name, f.Chmod(mode))
	}
	if closed := f.Close(); err == nil {
		err = at("close", name, closed)
	}
	if err == nil {
		err = at("replace", name, os.Rename(f.Name(), name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}

// target writes to the temporary file and speaks of the file that it is for.
type target struct {
	f    *os.File
	name string
}

func (t target) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)
	return n, at("write", t.name, err)
}

// at says an error of the temporary file, whose name nobody knows, of the file that it is for.
func at(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: cause(err)}
}

// cause is an error without the names that the operating system was given.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	if l := (*os.LinkError)(nil); errors.As(err, &l) {
		return l.Err
	}
	return err
}
