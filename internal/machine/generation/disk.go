package generation

import (
	"errors"
	"os"
	"path"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// disk makes every change of this package. The fault hook sees each change first, so that a test can count the
// changes, refuse one, or simulate a crash at any of them. All changes work through descriptors of folders, so that no
// path is resolved twice.
type disk struct {
	fault  func(op, path string) error
	fsync  func(fd int) error
	now    func() time.Time
	synced func(path string, began time.Time, took time.Duration)
	frozen error // why nothing can be changed even under the lock: read-only, immutable, or Store.Newer; nil if it can

	unlocked bool // another process may have the lock
}

// Names of operations, as the fault hook sees them.
const (
	opMkdir    = "mkdir"
	opCreate   = "create"
	opLink     = "link"
	opWrite    = "write"
	opChown    = "chown"
	opSetxattr = "setxattr"
	opChmod    = "chmod"
	opFsync    = "fsync"
	opRename   = "rename"
	opUnlink   = "unlink"
	opRmdir    = "rmdir"
	opAllocate = "allocate"
	opTruncate = "truncate"
)

// Attributes with the ACL of a file, and with its label. SELinux refuses a label with EACCES.
const (
	accessACL    = "system.posix_acl_access"
	selinuxLabel = "security.selinux"
)

const tmpSuffix = ".tmp"

// openFolder opens a folder to work in it and fsync it.
const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openIn opens a folder in another one. It follows no link.
func openIn(in *folder, base string) (*folder, error) {
	fd, err := unix.Openat(in.fd, base, openFolder, 0)
	if err != nil {
		return nil, wrapIO("open", in.name(base), err)
	}

	return &folder{fd: fd, path: in.name(base)}, nil
}

// folder is an open directory and its name in messages.
type folder struct {
	fd   int
	path string
}

// close ignores its error: sync has made the names in a folder durable, and the folder itself has no bytes to write.
func (f *folder) close() { _ = unix.Close(f.fd) }

// name returns the path of a file in the folder, which may be nil: see Store.dir.
func (f *folder) name(base string) string {
	if f == nil {
		return base
	}

	return path.Join(f.path, base)
}

// allow returns the reason why a change is not possible, or the error of the fault hook.
func (d *disk) allow(op, p string) error {
	switch {
	case d.frozen != nil:
		return d.frozen
	case d.unlocked:
		return reportMisuse(op, p, "the lock is not held")
	case d.fault == nil:
		return nil
	}

	return wrapIO(op, p, d.fault(op, p))
}

// do runs one system call that changes something. It repeats a call that a signal interrupted.
func (d *disk) do(op, p string, call func() error) error {
	if err := d.allow(op, p); err != nil {
		return err
	}

	err := call()
	for errors.Is(err, unix.EINTR) {
		err = call()
	}

	return wrapIO(op, p, err)
}

// mkdir makes a folder with mode 0700, which no usual umask changes.
func (d *disk) mkdir(in *folder, base string) error {
	return d.do(opMkdir, in.name(base), func() error {
		return unix.Mkdirat(in.fd, base, 0o700)
	})
}

func (d *disk) rename(in *folder, from, to string) error {
	return d.do(opRename, in.name(to), func() error {
		return unix.Renameat(in.fd, from, in.fd, to)
	})
}

func (d *disk) link(in *folder, from, to string) error {
	return d.do(opLink, in.name(to), func() error {
		return unix.Linkat(in.fd, from, in.fd, to, 0)
	})
}

// unlink removes a file. A file that does not exist is not an error.
func (d *disk) unlink(in *folder, base string) error {
	return d.do(opUnlink, in.name(base), func() error {
		err := unix.Unlinkat(in.fd, base, 0)
		if errors.Is(err, unix.EROFS) { // the kernel returns this before it looks for the name
			if isThere, statErr := exists(in, base); statErr == nil && !isThere {
				return nil
			}
		}
		if errors.Is(err, unix.ENOENT) {
			return nil
		}

		return err
	})
}

// remove removes a file of the store, or a folder in its place, which prelet did not make.
func (d *disk) remove(in *folder, base string) error {
	err := d.unlink(in, base)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}

	return d.removeAll(in, base)
}

// removeAll removes a file, or a folder with its content.
func (d *disk) removeAll(in *folder, base string) error {
	return d.do(opUnlink, in.name(base), func() error { return os.RemoveAll(in.name(base)) })
}

// rmdir removes an empty folder. A folder that is in use or not empty stays, and is not an error.
func (d *disk) rmdir(in *folder, base string) error {
	return d.do(opRmdir, in.name(base), func() error {
		err := unix.Unlinkat(in.fd, base, unix.AT_REMOVEDIR)
		if isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ENOTEMPTY, unix.EEXIST, unix.EBUSY) {
			return nil
		}

		return err
	})
}

// sync makes the names in a folder durable.
func (d *disk) sync(f *folder) error {
	return d.syncAll([]flush{{fd: f.fd, name: f.path}})
}

// flush is an open file or folder to fsync, and how long that took.
type flush struct {
	fd   int
	name string
	took time.Duration
	err  error
}

// syncAll makes files and folders durable, side by side. It is never repeated: after EIO the
// kernel has dropped the data that it could not write.
func (d *disk) syncAll(all []flush) error {
	for _, f := range all {
		if err := d.allow(opFsync, f.name); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}

	isSerial := os.Getenv("GOMAXPROCS") == "1" // one thread flushes one after the other
	if n := runtime.GOMAXPROCS(0); n < len(all) && !isSerial {
		// Go lends a thread that waits in a system call a processor until its monitor looks, for up to 10 ms.
		runtime.GOMAXPROCS(len(all))
		defer runtime.GOMAXPROCS(n)
	}

	began := d.now()
	do := func(f *flush) {
		from := time.Now()
		f.err = d.fsync(f.fd)
		f.took = time.Since(from)
	}
	var others sync.WaitGroup
	last := len(all) - 1
	for i := range last {
		if isSerial {
			do(&all[i])
			continue
		}
		others.Go(func() { do(&all[i]) })
	}
	do(&all[last])
	others.Wait()

	var errs []error
	for _, f := range all {
		d.synced(f.name, began, f.took)
		errs = append(errs, wrapIO(opFsync, f.name, f.err))
	}

	return errors.Join(errs...)
}

// chmodFolder changes the mode of a folder.
func (d *disk) chmodFolder(f *folder, mode uint32) error {
	return d.do(opChmod, f.path, func() error {
		return chmod(mode, func(mode uint32) error { return unix.Fchmod(f.fd, mode) })
	})
}

// newFile is a file that create has made and that is not yet durable.
type newFile struct {
	d     *disk
	f     *os.File
	label []byte // of the folder
}

// create makes a file that did not exist, with mode 0600.
func (d *disk) create(in *folder, base string) (*newFile, error) {
	fd := -1
	err := d.do(opCreate, in.name(base), func() (err error) {
		const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		fd, err = unix.Openat(in.fd, base, flags, 0o600)

		return err
	})
	if err != nil {
		return nil, err
	}

	file := os.NewFile(uintptr(fd), in.name(base))

	n := &newFile{d: d, f: file}
	n.label, _ = nodefile.ReadAttribute(in.fd, selinuxLabel)

	return n, nil
}

func (n *newFile) fd() int { return int(n.f.Fd()) }

func (n *newFile) write(b []byte) error {
	if err := n.d.allow(opWrite, n.f.Name()); err != nil {
		return err
	}
	_, err := n.f.Write(b)

	return wrapIO(opWrite, n.f.Name(), err)
}

// setMetadata sets the owner, the extended attributes and the mode. The order matters: chown clears capabilities and
// setuid, and an ACL changes the mode.
func (n *newFile) setMetadata(s FileState) error {
	p, fd := n.f.Name(), n.fd()

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return wrapIO("stat", p, err)
	}
	if int(st.Uid) != s.UID || int(st.Gid) != s.GID {
		chown := func() error { return unix.Fchown(fd, s.UID, s.GID) }
		if err := n.d.do(opChown, p, chown); err != nil {
			return err
		}
	}

	// Of a file that not everyone may read, no default ACL of the folder adds readers.
	isInherited := false
	if s.Mode&0o007 == 0 && s.Xattrs[accessACL] == nil {
		_, isInherited = nodefile.ReadAttribute(fd, accessACL)
	}
	if isInherited {
		remove := func() error { return unix.Fremovexattr(fd, accessACL) }
		if err := n.d.do(opSetxattr, p, remove); err != nil {
			return err
		}
	}

	hasLabel := s.Xattrs[selinuxLabel] != nil
	for _, name := range sortedKeys(s.Xattrs) {
		want := s.Xattrs[name]
		have, ok := nodefile.ReadAttribute(fd, name)
		if ok && string(have) == string(want) {
			continue // for example a security label that the folder has set
		}
		setxattr := func() error { return unix.Fsetxattr(fd, name, want, 0) }
		err := n.d.do(opSetxattr, p, setxattr)
		if name == selinuxLabel && isAny(err, unix.EPERM, unix.EINVAL) {
			hasLabel = false
			continue // SELinux is off, or its policy no longer has this label: the file gets that of the folder
		}
		if err != nil {
			return err
		}
	}

	// By its policy SELinux may give a new file of a service another label than files of this folder have, which the
	// file's readers may not read: etc_runtime_t in Debian.
	if !hasLabel && n.label != nil {
		setLabel := func() error { return unix.Fsetxattr(fd, selinuxLabel, n.label, 0) }
		_ = n.d.do(opSetxattr, p, setLabel) // it keeps its own if that is not allowed
	}

	return n.d.do(opChmod, p, func() error {
		return chmod(s.Mode, func(mode uint32) error { return unix.Fchmod(fd, mode) })
	})
}

// chmod sets a mode, without setuid and setgid where this process may not set them: preflight has judged that, unless
// another process that may set them began the commit, which must end.
func chmod(mode uint32, set func(mode uint32) error) error {
	err := set(mode)
	if mode&setID != 0 && errors.Is(err, unix.EPERM) {
		err = set(mode &^ setID)
	}

	return err
}

// close closes a file that is given up, or that sync has closed already. Only the first error matters.
func (n *newFile) close() { _ = n.f.Close() }

// replace replaces a file of the store: temporary, fsync, rename, fsync of the folder. Everything in r is durable
// before the rename.
func (d *disk) replace(r *syncRound, in *folder, base string, text []byte) error {
	tmp := base + tmpSuffix
	f, err := r.write(d, in, tmp, text)
	if f == nil {
		return err
	}

	if err == nil {
		err = r.sync(d)
	}
	if err == nil {
		err = d.renameOver(in, tmp, base)
	}
	if err != nil {
		r.giveUp(f)
		_ = d.unlink(in, tmp) // the first error matters

		return err
	}

	return d.sync(in)
}

// renameOver renames a file of the store over another one, or over a folder in its place, which prelet did not make.
func (d *disk) renameOver(in *folder, from, to string) error {
	err := d.rename(in, from, to)
	if errors.Is(err, unix.EISDIR) {
		if err = d.remove(in, to); err == nil {
			err = d.rename(in, from, to)
		}
	}

	return err
}
