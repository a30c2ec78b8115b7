package generation

import (
	"errors"
	"io"
	"path"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// disk makes every change that this package makes. Each one goes by the fault hook first, so that a test can count, refuse
// or end the world at any of them. All of them work through descriptors of folders: no path is resolved twice.
type disk struct {
	fault  func(op, path string) error
	fsync  func(fd int) error
	frozen error // why nothing may be changed, anywhere: what cannot be recorded is not done
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

// folder is an open directory and the name by which messages call it.
type folder struct {
	fd   int
	path string
}

// close has no error that matters: what was made in a folder is durable by sync, and a folder itself takes no bytes.
func (f *folder) close() { _ = unix.Close(f.fd) }

func (f *folder) name(base string) string { return path.Join(f.path, base) }

func (d *disk) before(op, p string) error {
	if d.frozen != nil {
		return d.frozen
	}
	if d.fault == nil {
		return nil
	}
	if err := d.fault(op, p); err != nil {
		return wrap(fault.CannotWrite, op, p, err)
	}
	return nil
}

// do runs one system call that changes something, again when a signal interrupted it.
func (d *disk) do(op, p string, call func() error) error {
	if err := d.before(op, p); err != nil {
		return err
	}
	for {
		err := call()
		if !errors.Is(err, unix.EINTR) {
			return wrap(fault.CannotWrite, op, p, err)
		}
	}
}

// mkdir makes a folder with exactly this mode, whatever the umask.
func (d *disk) mkdir(in *folder, base string, mode uint32) error {
	if err := d.do(opMkdir, in.name(base), func() error { return unix.Mkdirat(in.fd, base, 0o700) }); err != nil {
		return err
	}
	if mode == 0o700 {
		return nil // umask takes nothing that the owner needs unless it is absurd, and our own folders are 0700
	}
	return d.do(opChmod, in.name(base), func() error { return unix.Fchmodat(in.fd, base, mode, 0) })
}

func (d *disk) rename(in *folder, from, to string) error {
	return d.do(opRename, in.name(to), func() error { return unix.Renameat(in.fd, from, in.fd, to) })
}

func (d *disk) link(in *folder, have, also string) error {
	return d.do(opLink, in.name(also), func() error { return unix.Linkat(in.fd, have, in.fd, also, 0) })
}

// unlink removes a file; that there is none is fine.
func (d *disk) unlink(in *folder, base string) error {
	return d.do(opUnlink, in.name(base), func() error { return ignore(unix.Unlinkat(in.fd, base, 0), unix.ENOENT) })
}

// rmdir removes an empty folder. gone says whether it is no longer there; a folder that is in use or not empty stays.
func (d *disk) rmdir(in *folder, base string) (gone bool, err error) {
	gone = true
	err = d.do(opRmdir, in.name(base), func() error {
		err := unix.Unlinkat(in.fd, base, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTDIR) {
			gone = false
			return nil
		}
		return ignore(err, unix.ENOENT)
	})
	return gone && err == nil, err
}

// sync makes the names in a folder durable. It is never tried twice: after EIO the kernel has dropped what it could not write.
func (d *disk) sync(f *folder) error {
	if err := d.before(opFsync, f.path); err != nil {
		return err
	}
	return wrap(fault.CannotWrite, opFsync, f.path, d.fsync(f.fd))
}

// chmodAt and chownAt change a folder, and nothing else that has taken its name since: chmod by name would follow a link.
func (d *disk) chmodAt(in *folder, base string, mode uint32) error {
	return d.do(opChmod, in.name(base), func() error {
		return withFolder(in, base, func(fd int) error { return unix.Chmod("/proc/self/fd/"+itoa(fd), mode) })
	})
}

func (d *disk) chownAt(in *folder, base string, uid, gid int) error {
	return d.do(opChown, in.name(base), func() error {
		return withFolder(in, base, func(fd int) error { return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH) })
	})
}

func withFolder(in *folder, base string, do func(fd int) error) error {
	fd, err := unix.Openat(in.fd, base, passFolder, 0)
	if err != nil {
		return explainOpen(in.fd, base, err)
	}
	defer unix.Close(fd) // only passed through
	return do(fd)
}

// newFile is a file that was made by create and is not yet durable.
type newFile struct {
	d    *disk
	fd   int
	path string
}

// create makes a file that did not exist, readable by the owner only.
func (d *disk) create(in *folder, base string) (*newFile, error) {
	f := &newFile{d: d, fd: -1, path: in.name(base)}
	err := d.do(opCreate, f.path, func() (err error) {
		f.fd, err = unix.Openat(in.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *newFile) write(b []byte) error {
	if err := f.d.before(opWrite, f.path); err != nil {
		return err
	}
	for len(b) > 0 {
		n, err := unix.Write(f.fd, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return wrap(fault.CannotWrite, opWrite, f.path, err)
		}
		b = b[n:]
	}
	return nil
}

// dress gives the file its owner, extended attributes and mode, in the order in which none undoes another: chown clears
// capabilities and setuid, an ACL changes the mode.
func (f *newFile) dress(s State) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return wrap(fault.CannotWrite, "stat", f.path, err)
	}
	if int(st.Uid) != s.UID || int(st.Gid) != s.GID {
		if err := f.d.do(opChown, f.path, func() error { return unix.Fchown(f.fd, s.UID, s.GID) }); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(s.Xattrs) {
		want := s.Xattrs[name]
		if have, ok := getXattr(f.fd, name); ok && string(have) == string(want) {
			continue // as a security label that the folder gave it already
		}
		if err := f.d.do(opSetxattr, f.path, func() error { return unix.Fsetxattr(f.fd, name, want, 0) }); err != nil {
			return err
		}
	}
	return f.d.do(opChmod, f.path, func() error { return unix.Fchmod(f.fd, s.Mode) })
}

// sync makes the file durable and closes it.
func (f *newFile) sync() error {
	if err := f.d.before(opFsync, f.path); err != nil {
		_ = f.close() // the file is given up; the first error counts
		return err
	}
	err := f.d.fsync(f.fd)
	if cerr := f.close(); err == nil {
		err = cerr
	}
	return wrap(fault.CannotWrite, opFsync, f.path, err)
}

func (f *newFile) close() error {
	if f.fd < 0 {
		return nil
	}
	err := unix.Close(f.fd)
	f.fd = -1
	return err
}

// put replaces a file of our own: temporary, fsync, rename, fsync of the folder. commits, if not nil, is set as soon as the
// new content can be seen.
func (d *disk) put(in *folder, base string, commits *bool, parts ...[]byte) error {
	tmp := base + tmpSuffix
	f, err := d.create(in, tmp)
	if errors.Is(err, unix.EEXIST) { // of a killed run
		if err = d.unlink(in, tmp); err == nil {
			f, err = d.create(in, tmp)
		}
	}
	if err != nil {
		return err
	}
	for i := 0; i < len(parts) && err == nil; i++ {
		err = f.write(parts[i])
	}
	if err == nil {
		err = f.sync()
	}
	if err == nil {
		err = d.rename(in, tmp, base)
	}
	if err != nil {
		_ = f.close() // the file is given up; the first error counts
		_ = d.unlink(in, tmp)
		return err
	}
	if commits != nil {
		*commits = true
	}
	return d.sync(in)
}

const tmpSuffix = ".tmp"

func ignore(err error, what ...error) error {
	for _, w := range what {
		if errors.Is(err, w) {
			return nil
		}
	}
	return err
}
