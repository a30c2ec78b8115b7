package site

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// OS gives the files of this machine. This file is the only one of the room that knows package os.
func OS() Files { return osFiles{} }

type osFiles struct{}

func (osFiles) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat(name) }
func (osFiles) Readlink(name string) (string, error)       { return os.Readlink(name) }
func (osFiles) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// ReadFile looks at what it has opened once more: between Lstat and here the name may have become something else.
func (osFiles) ReadFile(name string, max int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(b)) > max {
		err = fmt.Errorf("%s has more than %d bytes", name, max)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
