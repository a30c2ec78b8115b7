// Package atomicfile replaces a file atomically: a reader sees either the old or the new content. Its functions write a
// temporary file in the same folder and rename it. Only Durable is for data that has to survive a power cut: after
// another function the file may then be the old one or empty. internal/machine/generation writes the managed files of a
// node.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File replaces the content of a file and its mode, which the umask does not change. After an error the file is
// unchanged; the error names the file, or the folder in which no file can be created.
func File(name string, mode fs.FileMode, text []byte) error {
	return With(name, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Durable is File for data that cannot be obtained again: when it returns, the file survives a power cut.
func Durable(name string, mode fs.FileMode, text []byte) error {
	err := replace(name, func(f *os.File) error {
		_, err := f.Write(text)
		if err == nil {
			err = f.Chmod(mode)
		}
		if err == nil {
			err = f.Sync()
		}
		return wrap("write", name, err)
	})
	if err != nil {
		return err
	}

	return SyncFolder(filepath.Dir(name))
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}

// Edit is File for a file that exists, and keeps its owner, its group and its permissions.
func Edit(name string, text []byte) error {
	st, err := os.Stat(name)
	if err != nil {
		return err
	}

	return replace(name, func(f *os.File) error {
		if _, err := (target{f, name}).Write(text); err != nil {
			return err
		}
		if owner, isKnown := st.Sys().(*syscall.Stat_t); isKnown {
			if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
				return wrap("chown", name, err)
			}
		}
		return wrap("chmod", name, f.Chmod(st.Mode().Perm()))
	})
}

// With is File for content that write writes in parts. It returns the error of write unchanged.
func With(name string, mode fs.FileMode, write func(io.Writer) error) error {
	return replace(name, func(f *os.File) error {
		if err := write(target{f, name}); err != nil {
			return err
		}
		return wrap("chmod", name, f.Chmod(mode))
	})
}

// replace replaces a file by a new one, which fill fills.
func replace(name string, fill func(*os.File) error) error {
	folder, base := filepath.Split(name)
	folder = filepath.Clean(folder)
	f, err := os.CreateTemp(folder, "."+base+".*")
	if err != nil {
		return fmt.Errorf("folder %s: %w", folder, stripNames(err))
	}

	err = fill(f)
	if closeErr := f.Close(); err == nil {
		err = wrap("close", name, closeErr)
	}
	if err == nil {
		err = wrap("replace", name, os.Rename(f.Name(), name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error matters
	}

	return err
}

// Remove removes a file, if it exists.
func Remove(name string) error {
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// target writes to the temporary file. Its errors name the file that is replaced.
type target struct {
	f    *os.File
	name string
}

func (t target) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)

	return n, wrap("write", t.name, err)
}

// wrap replaces the name of the temporary file in an error by the name of the file. err may be nil.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}

	return &fs.PathError{Op: op, Path: name, Err: stripNames(err)}
}

// stripNames returns an error without the file names that package os has added.
func stripNames(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}

	return err
}
