package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// fingerprint identifies an inode and the age of its content. It shows without reading whether a file is still the one
// that was read before.
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
	state   State
	content []byte
	print   fingerprint // zero when absent
}

// observe reads one target. A target below a missing folder is absent; a link, a pipe or a device is an error.
func (t *tree) observe(p string) (observation, error) {
	if err := checkPath(p); err != nil {
		return observation{}, refuse("observe", p, err, "fix the path in the site")
	}

	dir, err := t.walk(path.Dir(p), passFolder, nil)
	if errors.Is(err, unix.ENOENT) {
		return observation{}, nil
	}
	if err != nil {
		return observation{}, err
	}
	defer dir.close()

	return observeAt(dir, path.Base(p))
}

// nextOtherPath is the next step for a target that is neither a file nor a folder.
const nextOtherPath = "remove it, or choose another path"

func observeAt(dir *folder, base string) (observation, error) {
	p := dir.name(base)
	var st unix.Stat_t
	err := unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR { // opening a device may have effects
		return observation{}, refuse("observe", p, errors.New("it is a device"), nextOtherPath)
	}

	f, err := openToRead(dir, base)
	switch {
	case errors.Is(err, unix.ENOENT):
		return observation{}, nil
	case errors.Is(err, unix.ENXIO):
		err = errors.New("it is a socket or a device, not a file")
	case err == nil:
		defer f.Close()
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil {
		return observation{}, wrapIO("observe", p, err)
	}

	o := observation{print: newFingerprint(&st)}
	o.state = State{
		Kind: File,
		Mode: st.Mode & maxMode,
		UID:  int(st.Uid),
		GID:  int(st.Gid),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		o.state.Kind = Dir
		return o, nil
	case unix.S_IFREG:
	default:
		cause := errors.New("it is neither a file nor a folder")
		return observation{}, refuse("observe", p, cause, nextOtherPath)
	}

	if o.content, err = readAll(f); err != nil {
		return observation{}, wrapIO("observe", p, err)
	}
	o.state.Size = int64(len(o.content))
	o.state.SHA256 = Checksum(o.content)
	if o.state.Xattrs, err = listXattrs(int(f.Fd())); err != nil {
		return observation{}, wrapIO("read attributes of", p, err)
	}

	return o, nil
}

// statFingerprint returns the fingerprint of a file without reading it. ok is false if the file does not exist.
func statFingerprint(dir *folder, base string) (p fingerprint, ok bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return fingerprint{}, false, nil
	}
	if err != nil {
		return fingerprint{}, false, wrapIO("stat", dir.name(base), err)
	}

	return newFingerprint(&st), true, nil
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

var errTooLarge = fmt.Errorf("it has more than %d bytes", MaxContent)

// readAll reads a file of at most MaxContent bytes.
func readAll(f *os.File) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, MaxContent+1))
	if err == nil && len(b) > MaxContent {
		err = errTooLarge
	}

	return b, err
}

// errNotFile reports a folder, a pipe or a device with the name of a file of the store.
var errNotFile = errors.New("it is not a file")

// readFile reads a file of the store. The error of a missing file is unix.ENOENT.
func readFile(dir *folder, base string) ([]byte, error) {
	f, err := openToRead(dir, base)
	if err != nil {
		return nil, wrapIO("read", dir.name(base), err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotFile
	}
	if err != nil {
		return nil, wrapIO("read", dir.name(base), err)
	}
	b, err := readAll(f)

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

// maxXattr is the kernel's limit: bytes of all names, or of one value.
const maxXattr = 64 << 10

// listXattrs reads the extended attributes of a file. It leaves out the signatures of IMA and EVM, which a change of
// the content invalidates.
func listXattrs(fd int) (map[string][]byte, error) {
	buf := make([]byte, maxXattr)
	n, err := unix.Flistxattr(fd, buf)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil, nil
	}
	if err != nil || n == 0 {
		return nil, err
	}

	attributes := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if nodefile.IsSignature(name) {
			continue
		}
		if v, ok := getXattr(fd, name); ok {
			attributes[name] = v
		}
	}

	return attributes, nil
}

func getXattr(fd int, name string) ([]byte, bool) {
	buf := make([]byte, maxXattr)
	n, err := unix.Fgetxattr(fd, name, buf)
	if err != nil {
		return nil, false
	}

	return slices.Clone(buf[:n]), true
}

// Checksum returns the SHA-256 of contents, in hex.
func Checksum(b []byte) string {
	h := sha256.Sum256(b)

	return hex.EncodeToString(h[:])
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// isAbove reports whether dir is a folder above p.
func isAbove(dir, p string) bool {
	return dir == "/" && p != "/" || strings.HasPrefix(p, dir+"/")
}

// listMissing returns the folders above p that do not exist, the highest first.
func (t *tree) listMissing(p string) ([]string, error) {
	var missing []string
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		f, err := t.walk(d, passFolder, nil)
		if err == nil {
			f.close()
			break
		}
		if !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
		missing = append(missing, d)
	}
	slices.Reverse(missing)

	return missing, nil
}
