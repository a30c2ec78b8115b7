package generation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// fingerprint identifies an inode and the age of its content. It shows without reading whether a file is unchanged
// since it was read.
type fingerprint struct {
	dev, ino     uint64
	size         int64
	ctime, mtime unix.Timespec
}

func newFingerprint(st *unix.Stat_t) fingerprint {
	return fingerprint{
		dev:   uint64(st.Dev),
		ino:   st.Ino,
		size:  st.Size,
		ctime: st.Ctim,
		mtime: st.Mtim,
	}
}

// observation is a target as it was read.
type observation struct {
	state   FileState
	content []byte
	print   fingerprint // zero when absent
	damage  error       // why the content of a file cannot be read; its state is known otherwise
}

// look finds a target path below the root without following a link. An error names the first folder of the path that
// cannot be opened.
func (s *Store) look(p string) (*nodefile.Look, error) {
	look, err := nodefile.Root(s.o.Root).Look(p, nodefile.FollowNone)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = wrapIO("open", at.Path, err)
	}

	return look, err
}

// observe reads one target. A target below a missing folder is absent; a link, a pipe or a device is an error. A file
// that cannot be read is none: it is replaced like one with another content.
func (s *Store) observe(p string) (o observation, err error) {
	if err := checkPath(p); err != nil {
		return o, refuse("observe", p, err, "fix the path in the site")
	}
	look, err := s.look(p)
	if errors.Is(err, unix.ENOENT) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	defer look.Close()

	o.print = newFingerprint(&look.Stat)
	o.state, o.content, err = look.Observe(MaxContent)
	if unreadable := new(nodefile.UnreadableError); errors.As(err, &unreadable) {
		o.damage, err = unreadable, nil
	}
	maps.DeleteFunc(o.state.Xattrs, func(name string, _ []byte) bool {
		return nodefile.IsSignature(name) // a change of the content invalidates it
	})

	return o, wrapIO("observe", p, err)
}

// openFolder opens a folder of the target tree, to work in it and fsync it.
func (s *Store) openFolder(p string) (*folder, error) {
	look, err := s.look(p)
	if err != nil {
		return nil, err
	}
	defer look.Close()

	return newFolderOf(look)
}

func newFolderOf(look *nodefile.Look) (*folder, error) {
	fd, err := look.OpenFolder()
	if err != nil {
		return nil, wrapIO("open", look.Path(), err)
	}

	return &folder{fd: fd, path: look.Path()}, nil
}

// openParent opens the folder of a target to work in it, and returns the name of the target.
func (s *Store) openParent(p string) (*folder, string, error) {
	f, err := s.openFolder(path.Dir(p))

	return f, path.Base(p), err
}

// exists reports whether an open folder has an entry of that name, which may be a dangling link.
func exists(dir *folder, base string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}

	return err == nil, wrapIO("stat", dir.name(base), err)
}

// openToRead opens a file without following a link and without waiting for a writer of a pipe.
func openToRead(dir *folder, base string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir.fd, base, flags, 0)
	if err != nil {
		return nil, err
	}

	return os.NewFile(uintptr(fd), dir.name(base)), nil
}

// openFile opens a file of the store, and returns its size. Anything but a file is an error.
func openFile(dir *folder, base string) (f *os.File, size int64, err error) {
	f, err = openToRead(dir, base)
	if err != nil {
		return nil, 0, err
	}

	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotFile
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}

	return f, info.Size(), nil
}

var errTooLarge = fmt.Errorf("it has more than %d bytes", MaxContent)

// errNotFile reports a folder, a pipe or a device with the name of a file of the store.
var errNotFile = errors.New("it is not a file")

// readOwned reads a file of the store, of at most MaxContent bytes. The error of a missing file is unix.ENOENT. A file
// that another user may change is refused.
func readOwned(dir *folder, base string) ([]byte, error) {
	if _, err := statOwned(dir, base); err != nil {
		return nil, err
	}
	f, _, err := openFile(dir, base)
	if err != nil {
		return nil, wrapIO("read", dir.name(base), err)
	}
	defer f.Close()

	b, err := io.ReadAll(io.LimitReader(f, MaxContent+1))
	if err == nil && len(b) > MaxContent {
		err = errTooLarge
	}

	return b, wrapIO("read", dir.name(base), err)
}

// listNames returns the names in a folder, sorted.
func listNames(f *folder) ([]string, error) {
	fd, err := unix.Openat(f.fd, ".", openFolder, 0)
	if err != nil {
		return nil, wrapIO("list", f.path, err)
	}
	d := os.NewFile(uintptr(fd), f.path)
	defer d.Close()

	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, wrapIO("list", f.path, err)
	}
	slices.Sort(names)

	return names, nil
}

// Checksum returns the SHA-256 of contents, in hex.
func Checksum(b []byte) string { return nodefile.Checksum(b) }

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func isAbove(dir, p string) bool {
	return dir == "/" && p != "/" || strings.HasPrefix(p, dir+"/")
}

// lookAbove finds the nearest existing folder above p. missing are the folders between them, the highest first.
func (s *Store) lookAbove(p string) (look *nodefile.Look, missing []string, err error) {
	for d := path.Dir(p); ; d = path.Dir(d) {
		look, err = s.look(d)
		if d == "/" || !errors.Is(err, unix.ENOENT) {
			slices.Reverse(missing)
			return look, missing, err
		}
		missing = append(missing, d)
	}
}
