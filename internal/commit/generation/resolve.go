package generation

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags that open a folder: to work in it and fsync it, or only to look up a name in it, which needs fewer permissions.
const (
	openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	passFolder = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// tree resolves target paths below a root folder. It follows no link.
type tree struct {
	root *folder
}

func newTree(root string) (*tree, error) {
	if root == "" {
		root = "/"
	}
	f, err := openReal(root)
	if err != nil {
		return nil, err
	}
	f.path = "/"

	return &tree{root: f}, nil
}

// open opens a folder by its target path ("/" is the root). A link anywhere in the path is ELOOP.
func (t *tree) open(p string) (*folder, error) {
	return t.walk(p, openFolder, nil)
}

// lookFunc checks an open folder of a walk. at is its target path; last is true for the folder that the walk returns.
type lookFunc func(at string, fd int, st *unix.Stat_t, last bool) error

// walk opens a folder one name at a time, without following a link, and calls look for each folder, unless look is nil.
// An error names the first folder that cannot be opened.
func (t *tree) walk(p string, flags int, look lookFunc) (*folder, error) {
	names := strings.FieldsFunc(p, func(r rune) bool { return r == '/' })

	f, err := enterFolder(t.root, ".", len(names) == 0, flags, look)
	for i, name := range names {
		if err != nil {
			return nil, err
		}
		parent := f
		f, err = enterFolder(parent, name, i == len(names)-1, flags, look)
		parent.close()
	}

	return f, err
}

// enterFolder opens one folder of a walk: the last one with the flags of the walk, the others to pass through.
func enterFolder(in *folder, name string, last bool, flags int, look lookFunc) (*folder, error) {
	if !last {
		flags = passFolder
	}
	fd, err := unix.Openat(in.fd, name, flags, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat(in.fd, name, flags, 0)
	}
	if err != nil {
		return nil, wrapIO("open", in.name(name), explainOpen(in.fd, name, err))
	}

	f := &folder{fd: fd, path: in.name(name)}
	if look == nil {
		return f, nil
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = look(f.path, fd, &st, last)
	}
	if err != nil {
		f.close()
		return nil, wrapIO("look at", f.path, err)
	}

	return f, nil
}

// explainOpen distinguishes a link from a file: with O_DIRECTORY and O_NOFOLLOW both are ENOTDIR.
func explainOpen(dir int, base string, err error) error {
	if !errors.Is(err, unix.ENOTDIR) {
		return err
	}

	var st unix.Stat_t
	statErr := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if statErr == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}

	return err
}

// parent opens the folder of a target to work in it, and returns the name of the target.
func (t *tree) parent(p string) (*folder, string, error) {
	f, err := t.open(path.Dir(p))

	return f, path.Base(p), err
}
