package site

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// OS gives the files of this machine. This file is the only one of the room that knows package os.
func OS() Files { return osFiles{} }

type osFiles struct{}

func (osFiles) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat(name) }
func (osFiles) Readlink(name string) (string, error)       { return os.Readlink(name) }
func (osFiles) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

func (osFiles) Judge(name string) error { return nodefile.CheckTrusted(name) }

// ReadFile looks at what is there once more: between Lstat and here the name may have become something else.
func (osFiles) ReadFile(name string, max int64) ([]byte, error) {
	st, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	look, err := nodefile.Find(name, nodefile.FollowTrusted)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	return look.Read(max)
}
