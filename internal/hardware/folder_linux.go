package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// openFolder opens a recorded tree. The kernel resolves names inside of it if it can (Linux 5.6, and no sandbox that
// forbids openat2); os.Root does the same from outside, element by element, at five times the cost.
func openFolder(name string) (Opened, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	t := &beneathTree{dir: dir}
	if fd, err := t.open(".", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		_ = unix.Close(fd)
		return t, nil
	}
	_ = dir.Close()
	return openRoot(name)
}

// beneathTree is a recorded tree in a folder that is held open. Names are resolved by openat2 with RESOLVE_BENEATH, which
// refuses what os.Root refuses: any link that leads out of the folder, and any that is absolute.
//
// The files of a device are read one after the other, and their names are long and go over links. So the folder that is asked
// for twice in a row is held, and names in it are resolved from there: half the cost of looking at a machine with many devices.
type beneathTree struct {
	dir *os.File

	mu     sync.Mutex
	before string      // the folder of the name that was opened last
	held   *heldFolder // may be nil
}

// heldFolder is one that is held open while somebody uses it: a read that hangs is left behind, and must not keep others out.
type heldFolder struct {
	name string
	fd   int
	uses int // guarded by the tree's mutex; the tree's own is one
}

func (t *beneathTree) Close() error {
	t.mu.Lock()
	f := t.held
	t.held = nil
	t.mu.Unlock()
	t.release(f)
	return t.dir.Close()
}

func (t *beneathTree) open(name string, flags uint64) (int, error) {
	dir, base := path.Split(name)
	if f := t.hold(dir); f != nil {
		defer t.release(f)
		if fd, err := resolve(f.fd, base, flags); err != unix.EXDEV { // a link may lead out of this folder and still stay in the tree
			return fd, err
		}
	}
	return resolve(int(t.dir.Fd()), name, flags)
}

// hold returns the folder if names in it are resolved from there; whoever gets one releases it.
func (t *beneathTree) hold(dir string) *heldFolder {
	if dir == "" {
		return nil
	}
	t.mu.Lock()
	if f := t.held; f != nil && f.name == dir {
		f.uses++
		t.mu.Unlock()
		return f
	}
	again := t.before == dir
	t.before = dir
	t.mu.Unlock()
	if !again {
		return nil
	}
	fd, err := resolve(int(t.dir.Fd()), dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	f := &heldFolder{name: dir, fd: fd, uses: 2}
	t.mu.Lock()
	old := t.held
	t.held = f
	t.mu.Unlock()
	t.release(old)
	return f
}

func (t *beneathTree) release(f *heldFolder) {
	if f == nil {
		return
	}
	t.mu.Lock()
	f.uses--
	last := f.uses == 0
	t.mu.Unlock()
	if last {
		_ = unix.Close(f.fd)
	}
}

// resolve opens a name beneath an open folder.
func resolve(at int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for tries := 0; ; tries++ {
		fd, err := retry(func() (int, error) { return unix.Openat2(at, name, &how) })
		if err != unix.EAGAIN || tries == maxRaces { // something was renamed while .. was resolved
			return fd, err
		}
	}
}

// maxRaces is how often a name is resolved again because somebody renames folders in a recorded tree.
const maxRaces = 8

// refused is an error of open as *fs.PathError.
func refused(name string, err error) error {
	if errors.Is(err, unix.EXDEV) {
		err = errEscapes
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}

func (t *beneathTree) ReadFile(name string, limit int) ([]byte, error) {
	// A named pipe in the tree must not hang its reader.
	fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, refused(name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// What has come short has come whole, but for files of /proc, which come in pieces.
	pieces := !strings.HasPrefix(name, "sys/")
	var page [sysfsLimit]byte
	var data []byte
	for len(data) < limit {
		buf := page[:min(len(page), limit-len(data))]
		n, err := retry(func() (int, error) { return unix.Read(fd, buf) })
		if len(data) == 0 && n <= 0 {
			return nil, gaveNothing(fd, name, err)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		data = append(data, buf[:n]...)
		if n == 0 || n < len(buf) && !pieces {
			break
		}
	}
	return data, nil
}

// gaveNothing tells about a file that gave nothing: it is empty, or it is no regular file, or it cannot be read. To ask that of every
// file first would be a quarter of all system calls.
func gaveNothing(fd int, name string, err error) error {
	var st unix.Stat_t
	if statErr := unix.Fstat(fd, &st); statErr != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: statErr}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errNotRegular
	case err == nil:
		return nil
	}
	return &fs.PathError{Op: "read", Path: name, Err: err}
}

func (t *beneathTree) ReadDir(name string) ([]string, error) {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY)
	if err != nil {
		return nil, refused(name, err)
	}
	return readNames(fd, name)
}

func (t *beneathTree) ReadLink(name string) (string, error) {
	// A link itself is opened and read, so that what is read is what was resolved.
	fd, err := t.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", refused(name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var target [unix.PathMax]byte
	n, err := retry(func() (int, error) { return unix.Readlinkat(fd, "", target[:]) })
	if err != nil {
		if err == unix.ENOENT { // what Linux says of an empty path whose descriptor is no link
			err = unix.EINVAL
		}
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(target[:n]), nil
}

// readNames reads the names in an open folder, and closes it.
func readNames(fd int, name string) ([]string, error) {
	defer func() { _ = unix.Close(fd) }()
	var names []string
	buf := make([]byte, 8<<10)
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if err != nil {
			return nil, &fs.PathError{Op: "readdirent", Path: name, Err: err}
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
