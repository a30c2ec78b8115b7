package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// fingerprint identifies an inode and the age of its content. It says without reading whether a file is the one that was
// read before.
type fingerprint struct {
	dev, ino     uint64
	size         int64
	ctime, mtime unix.Timespec
}

func fingerprintOf(st *unix.Stat_t) fingerprint {
	return fingerprint{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, ctime: st.Ctim, mtime: st.Mtim}
}

// seen is an observation.
type seen struct {
	state   State
	content []byte
	print   fingerprint // zero when absent
	links   uint64
}

// observe reads one target. A missing folder above it means absent; a link, a pipe, a device are errors.
func (t *tree) observe(p string) (seen, error) {
	if err := checkPath(p); err != nil {
		return seen{}, NewFault(fault.CannotWrite, "observe", p, err, "mend the path in the site")
	}
	dir, err := t.openWith(path.Dir(p), passFolder)
	if errors.Is(err, unix.ENOENT) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, err
	}
	defer dir.close()
	return observeAt(dir, path.Base(p))
}

func observeAt(dir *folder, base string) (seen, error) {
	p := dir.name(base)
	var found unix.Stat_t // before it is opened: opening a device may do something
	if err := unix.Fstatat(dir.fd, base, &found, unix.AT_SYMLINK_NOFOLLOW); err == nil && found.Mode&unix.S_IFMT == unix.S_IFCHR {
		return seen{}, NewFault(fault.CannotWrite, "observe", p, errors.New("it is a device"), "remove it, or choose another path")
	}
	fd, err := unix.Openat(dir.fd, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return seen{}, nil
	case errors.Is(err, unix.ENXIO):
		err = errors.New("it is a socket or a device, not a file")
	}
	if err != nil {
		return seen{}, wrap(fault.CannotWrite, "observe", p, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return seen{}, wrap(fault.CannotWrite, "observe", p, err)
	}
	s := seen{print: fingerprintOf(&st), links: uint64(st.Nlink)}
	s.state = State{Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.state.Kind = Dir
		return s, nil
	case unix.S_IFREG:
		s.state.Kind = File
	default:
		return seen{}, NewFault(fault.CannotWrite, "observe", p, errors.New("it is neither a file nor a folder"), "remove it, or choose another path")
	}
	if s.content, err = readAll(fd, st.Size); err != nil {
		return seen{}, wrap(fault.CannotWrite, "observe", p, err)
	}
	s.state.Size, s.state.SHA256 = int64(len(s.content)), sum(s.content)
	if s.state.Xattrs, err = listXattrs(fd); err != nil {
		return seen{}, wrap(fault.CannotWrite, "read attributes of", p, err)
	}
	return s, nil
}

// printAt looks at a target without reading it. ok is false when there is none.
func printAt(dir *folder, base string) (p fingerprint, ok bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return fingerprint{}, false, nil
	}
	if err != nil {
		return fingerprint{}, false, wrap(fault.CannotWrite, "stat", dir.name(base), err)
	}
	return fingerprintOf(&st), true, nil
}

// readAll reads a file of MaxContent bytes at most.
func readAll(fd int, size int64) ([]byte, error) {
	if size > MaxContent {
		return nil, fmt.Errorf("it has %d bytes, more than %d", size, MaxContent)
	}
	b := make([]byte, 0, size+1)
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, 4096)
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) > MaxContent {
			return nil, fmt.Errorf("it has more than %d bytes", MaxContent)
		}
	}
}

// readFile reads a file of our own folder. A missing one is unix.ENOENT.
func readFile(dir *folder, base string) ([]byte, error) {
	fd, err := unix.Openat(dir.fd, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "read", dir.name(base), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("it is not a file")
	}
	var b []byte
	if err == nil {
		b, err = readAll(fd, st.Size)
	}
	return b, wrap(fault.CannotWrite, "read", dir.name(base), err)
}

// names lists a folder, sorted.
func names(f *folder) ([]string, error) {
	fd, err := unix.Openat(f.fd, ".", openFolder, 0)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "list", f.path, err)
	}
	d := os.NewFile(uintptr(fd), f.path)
	defer d.Close()

	out, err := d.Readdirnames(-1)
	if err != nil {
		return nil, wrap(fault.CannotWrite, "list", f.path, err)
	}
	slices.Sort(out)

	return out, nil
}

// mostAttributes is what the kernel gives at most: bytes of names, or of one value.
const mostAttributes = 64 << 10

// listXattrs reads the extended attributes that belong to a file and not to its bytes: the signatures of IMA and EVM do not
// survive a change of content and are left out.
func listXattrs(fd int) (map[string][]byte, error) {
	buf := make([]byte, mostAttributes)
	n, err := unix.Flistxattr(fd, buf)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m map[string][]byte
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if name == "" || name == "security.ima" || name == "security.evm" {
			continue
		}
		if v, ok := getXattr(fd, name); ok {
			if m == nil {
				m = map[string][]byte{}
			}
			m[name] = v
		}
	}
	return m, nil
}

func getXattr(fd int, name string) ([]byte, bool) {
	buf := make([]byte, mostAttributes)
	n, err := unix.Fgetxattr(fd, name, buf)
	if err != nil {
		return nil, false
	}
	return slices.Clone(buf[:n]), true
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// above says whether dir is a folder above p.
func above(dir, p string) bool {
	return dir == "/" && p != "/" || strings.HasPrefix(p, dir+"/")
}

// missing lists the folders above p that do not exist, the highest first.
func (t *tree) missing(p string) ([]string, error) {
	var out []string
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		f, err := t.openWith(d, passFolder)
		if err == nil {
			f.close()
			break
		}
		if !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
		out = append(out, d)
	}
	slices.Reverse(out)
	return out, nil
}
