package app

import (
	"errors"
	"os"
	"syscall"
)

// ErrNotRegular is why a path is not opened that has no regular file.
var ErrNotRegular = errors.New("it is no regular file")

// OpenRegular opens a file to read, and nothing else: a pipe would wait for who writes into it.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}
