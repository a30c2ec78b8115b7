package hardware

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Tree is a machine as files: the root of this one, or a recorded one. Names are relative and slash-separated
// ("proc/meminfo"). Symbolic links are followed, but never out of the tree. Errors are *fs.PathError.
type Tree interface {
	// ReadFile returns the first limit bytes of a regular file.
	ReadFile(name string, limit int) ([]byte, error)
	// ReadDir returns the names in a folder, in any order.
	ReadDir(name string) ([]string, error)
	// ReadLink returns the target of a symbolic link.
	ReadLink(name string) (string, error)
}

// Opened is a Tree that must be closed.
type Opened interface {
	Tree
	io.Closer
}

// ReadTree opens a recorded machine: the root of a tree.
func ReadTree(name string) (Opened, error) {
	st, err := nodefile.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("open recorded hardware: %w", err)
	}
	if st.IsDir() { // openRoot would wait for the writer of a pipe
		return openRoot(name)
	}

	return nil, fmt.Errorf("open recorded hardware %s: it is neither a folder nor a .json; give the root of a "+
		"recorded tree, or the output of prelet detect -o json. Unpack an archive of ghw-snapshot or "+
		"hwloc-gather-topology with tar -xf, and give the folder with proc and sys", name)
}

// hostTree reads below a folder as the kernel resolves names: the root of this machine.
type hostTree struct{ root string }

// ReadFile implements Tree.
func (t hostTree) ReadFile(name string, limit int) ([]byte, error) {
	// An os.File would offer each of the hundreds of files to the runtime's poller, which refuses them.
	fd, err := unix.Open(t.root+"/"+name, openFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)

	return readFile(fd, name, limit)
}

// ReadDir implements Tree.
func (t hostTree) ReadDir(name string) ([]string, error) {
	f, err := os.OpenFile(t.root+"/"+name, openFlags, 0)
	return readNames(f, err, name)
}

// ReadLink implements Tree.
func (t hostTree) ReadLink(name string) (string, error) {
	target, err := os.Readlink(t.root + "/" + name)
	return target, renameError(err, name)
}

// rootTree is a recorded tree in a folder. os.Root refuses links that lead out of the folder, and absolute links.
type rootTree struct{ root *os.Root }

func openRoot(name string) (Opened, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}

	return rootTree{root}, nil
}

// Close implements io.Closer.
func (t rootTree) Close() error { return t.root.Close() }

// ReadFile implements Tree.
func (t rootTree) ReadFile(name string, limit int) ([]byte, error) {
	f, err := t.root.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil, renameError(err, name)
	}
	defer f.Close()

	return readFile(int(f.Fd()), name, limit)
}

// ReadDir implements Tree.
func (t rootTree) ReadDir(name string) ([]string, error) {
	f, err := t.root.OpenFile(name, openFlags, 0)
	return readNames(f, err, name)
}

// ReadLink implements Tree.
func (t rootTree) ReadLink(name string) (string, error) {
	target, err := t.root.Readlink(name)
	return target, renameError(err, name)
}

// openFlags do not block on a named pipe in a recorded tree.
const openFlags = unix.O_RDONLY | unix.O_NONBLOCK

// readFile reads the first limit bytes of an open file, if it is regular.
func readFile(fd int, name string, limit int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}

	var data []byte
	for len(data) < limit {
		if len(data) == cap(data) {
			data = slices.Grow(data, 256)
		}
		n, err := unix.Read(fd, data[len(data):min(cap(data), limit)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return data, nil
		default:
			asked := min(cap(data), limit) - len(data)
			data = data[:len(data)+n]
			if n < asked && st.Size > 0 {
				return data, nil // it ends here, unlike a file of /proc, which has no size and is read in pieces
			}
		}
	}

	return data, nil
}

// readNames lists a folder that was opened with err, and closes it.
func readNames(f *os.File, err error, name string) ([]string, error) {
	if err != nil {
		return nil, renameError(err, name)
	}
	defer func() { _ = f.Close() }()

	names, err := f.Readdirnames(-1)

	return names, renameError(err, name)
}

var (
	errNotRegular = errors.New("not a regular file")
	errEscapes    = errors.New("a symbolic link leads out of the recorded tree")
)

// renameError replaces the path of an error by the name inside the tree, so that facts do not depend on the
// tree's path.
func renameError(err error, name string) error {
	if err == nil {
		return nil
	}

	op := "read"

	var path *fs.PathError
	if errors.As(err, &path) {
		op = strings.TrimSuffix(path.Op, "at")
		err = withoutName(path)
	}

	return &fs.PathError{Op: op, Path: name, Err: err}
}

// isAbsent reports whether a file does not exist, in contrast to a file that cannot be read.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
