package generation

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Flags that open a folder: to work in it and fsync it, or only to look up a name in it (which asks for less permission).
const (
	openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	passFolder = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// tree resolves target paths below a root folder, following no link at all.
type tree struct {
	root *folder
}

func newTree(root string) (*tree, error) {
	if root == "" {
		root = "/"
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "open", root, err)
	}
	return &tree{root: &folder{fd: fd, path: "/"}}, nil
}

// open opens a folder by its target path ("/" is the root). A link anywhere on the way is ELOOP.
func (t *tree) open(p string) (*folder, error) { return t.openWith(p, openFolder) }

func (t *tree) openWith(p string, flags uint64) (*folder, error) {
	rel := strings.TrimPrefix(p, "/")
	if rel == "" {
		rel = "."
	}
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(t.root.fd, rel, &how)
		switch {
		case err == nil:
			return &folder{fd: fd, path: p}, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		}
		// An old kernel or a filter that does not know openat2, or an error that shall name the folder at fault.
		return t.walk(p, int(flags), nil)
	}
}

// walk opens a folder one name at a time, each without following a link, and shows each to look (which may be nil).
// An error names the first folder that could not be had.
func (t *tree) walk(p string, flags int, look func(at string, fd int, st *unix.Stat_t, last bool) error) (*folder, error) {
	names := strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
	flagsAt := func(i int) int {
		if i == len(names) {
			return flags
		}
		return passFolder
	}
	fd, err := unix.Openat(t.root.fd, ".", flagsAt(0), 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "open", "/", err)
	}
	at := "/"
	for i := 0; ; i++ {
		if look != nil {
			var st unix.Stat_t
			if err = unix.Fstat(fd, &st); err == nil {
				err = look(at, fd, &st, i == len(names))
			}
			if err != nil {
				_ = unix.Close(fd) // only looked at
				return nil, wrap(fault.CannotWrite, "look at", at, err)
			}
		}
		if i == len(names) {
			return &folder{fd: fd, path: p}, nil
		}
		at = path.Join(at, names[i])
		next, err := unix.Openat(fd, names[i], flagsAt(i+1), 0)
		if err != nil {
			err = explainOpen(fd, names[i], err)
			_ = unix.Close(fd) // only passed through
			return nil, wrap(fault.CannotWrite, "open", at, err)
		}
		_ = unix.Close(fd) // only passed through
		fd = next
	}
}

// explainOpen tells a link from a file: with O_DIRECTORY and O_NOFOLLOW both are ENOTDIR.
func explainOpen(dir int, base string, err error) error {
	var st unix.Stat_t
	if errors.Is(err, unix.ENOTDIR) && unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return err
}

// parent opens the folder of a target to work in it.
func (t *tree) parent(p string) (*folder, string, error) {
	f, err := t.open(path.Dir(p))
	return f, path.Base(p), err
}

// refuseLoose says that others than root and we can change what a name in a folder means; nil where nobody can.
func refuseLoose(loose *nodefile.Loose) error {
	if loose == nil {
		return nil
	}
	return NewFault(fault.CannotWrite, "check", loose.Path, fmt.Errorf("the folder %s, who could replace what is written there", loose.Why), loose.Fix+", or choose another folder")
}
