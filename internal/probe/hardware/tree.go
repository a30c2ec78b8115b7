package hardware

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Tree is a machine as files: the root of this one, or a recorded one. Names are relative and slash-separated
// ("proc/meminfo"). Symbolic links on the way are followed, and never out of the tree. Errors are *fs.PathError.
type Tree interface {
	// ReadFile returns the first limit bytes of a regular file.
	ReadFile(name string, limit int) ([]byte, error)
	// ReadDir returns the names in a folder, in any order.
	ReadDir(name string) ([]string, error)
	// ReadLink returns the target of a symbolic link as it is written.
	ReadLink(name string) (string, error)
}

// Opened is a Tree that holds something open until Close.
type Opened interface {
	Tree
	io.Closer
}

// ReadTree opens a recorded machine: a folder, a .tar.gz or .tgz as ghw-snapshot writes it, or a .tar.bz2 as
// hwloc-gather-topology does. An archive is unpacked, within bounds, into a folder that Close removes.
func ReadTree(name string) (Opened, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("open recorded hardware: %w", err)
	}
	if info.IsDir() {
		tree, err := openRoot(name)
		if err != nil {
			return nil, fmt.Errorf("open recorded hardware: %w", err)
		}
		return tree, nil
	}
	if !slices.ContainsFunc([]string{".tar.gz", ".tgz", ".tar.bz2"}, func(end string) bool { return strings.HasSuffix(name, end) }) {
		return nil, fmt.Errorf("open recorded hardware %s: it is neither a folder nor a .tar.gz, .tgz or .tar.bz2; give the root of a recorded tree, or what ghw-snapshot or hwloc-gather-topology wrote", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open recorded hardware: %w", err)
	}
	defer func() { _ = f.Close() }()
	tree, err := openArchive(f)
	if err != nil {
		return nil, fmt.Errorf("read recorded hardware %s: %w", name, err)
	}
	return tree, nil
}

// hostTree reads below a folder as the kernel resolves it: the root of this machine.
type hostTree struct{ root string }

func (t hostTree) ReadFile(name string, limit int) ([]byte, error) {
	f, err := os.OpenFile(t.root+"/"+name, openFlags, 0)
	return readFile(f, err, name, limit)
}

func (t hostTree) ReadDir(name string) ([]string, error) {
	f, err := os.OpenFile(t.root+"/"+name, openFlags, 0)
	return readNames(f, err, name)
}

func (t hostTree) ReadLink(name string) (string, error) {
	target, err := os.Readlink(t.root + "/" + name)
	return target, renamed(err, name)
}

// rootTree is a recorded tree in a folder. os.Root refuses any link that leads out of the folder, and any absolute one.
type rootTree struct{ root *os.Root }

func openRoot(name string) (Opened, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return rootTree{root}, nil
}

func (t rootTree) Close() error { return t.root.Close() }

func (t rootTree) ReadFile(name string, limit int) ([]byte, error) {
	f, err := t.root.OpenFile(name, openFlags, 0)
	return readFile(f, err, name, limit)
}

func (t rootTree) ReadDir(name string) ([]string, error) {
	f, err := t.root.OpenFile(name, openFlags, 0)
	return readNames(f, err, name)
}

func (t rootTree) ReadLink(name string) (string, error) {
	target, err := t.root.Readlink(name)
	return target, renamed(err, name)
}

// openFlags keep a named pipe in a recorded tree from hanging its reader.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

// readFile reads the first limit bytes of a file that was opened with err, if it is a regular one, and closes it.
func readFile(f *os.File, err error, name string, limit int) ([]byte, error) {
	if err != nil {
		return nil, renamed(err, name)
	}
	defer func() { _ = f.Close() }()

	info, err := f.Stat()
	if err != nil {
		return nil, renamed(err, name)
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}

	data, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil, renamed(err, name)
	}

	return data, nil
}

// readNames lists a folder that was opened with err, and closes it.
func readNames(f *os.File, err error, name string) ([]string, error) {
	if err != nil {
		return nil, renamed(err, name)
	}
	defer func() { _ = f.Close() }()

	names, err := f.Readdirnames(-1)

	return names, renamed(err, name)
}

var (
	errNotRegular = errors.New("not a regular file")
	errEscapes    = errors.New("a symbolic link leads out of the recorded tree")
)

// renamed gives an error the name inside the tree, so that facts do not depend on where a tree lies.
func renamed(err error, name string) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	if !errors.As(err, &path) {
		return &fs.PathError{Op: "read", Path: name, Err: err}
	}

	return &fs.PathError{Op: strings.TrimSuffix(path.Op, "at"), Path: name, Err: withoutName(path)}
}

// absent says that a file is not there, as opposed to there and unreadable.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// linkBase is the last element of a link's target: the driver's name of …/driver.
func linkBase(t Tree, name string) (string, error) {
	target, err := t.ReadLink(name)
	if err != nil {
		return "", err
	}
	return path.Base(target), nil
}
