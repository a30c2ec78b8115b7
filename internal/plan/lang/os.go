package lang

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// OS returns the files of this machine.
func OS() Files { return osFiles{} }

type osFiles struct{}

// AnyOwner returns the files of this machine for a site that does not control it, as in a checkout or in a container of
// CI: other users may change them.
func AnyOwner() Files { return anyOwner{} }

type anyOwner struct{ osFiles }

func (anyOwner) CheckTrusted(string) error { return nil }

func (osFiles) Lstat(name string) (fs.FileInfo, error) {
	return nodefile.Lstat(name)
}
func (osFiles) Readlink(name string) (string, error) {
	return nodefile.Within(name, func() (string, error) { return os.Readlink(name) })
}
func (osFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	return nodefile.ReadDir(name)
}

func (osFiles) CheckTrusted(name string) error {
	return nodefile.CheckTrusted(name)
}

// ReadFile checks the type of the file again: it may have changed since the search.
func (f osFiles) ReadFile(name string, max int64) ([]byte, error) {
	st, err := f.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}

	file, err := nodefile.Find(name, nodefile.FollowTrusted)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	return file.Read(max)
}
