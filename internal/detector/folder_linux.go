package detector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Limits for the folder of a detector's socket. prelet's units mount such a folder for each slot.
const (
	folderBytes  = 64 << 10
	folderInodes = 256
)

// makeFolder makes the slot's private folder: empty, owned by the detector, and a small tmpfs, so that a detector
// cannot use up the inodes and the memory of /run. prelet's units mount it. Otherwise it is mounted in a mount
// namespace that ends with the slot's processes. If that fails, the slot reports it.
func (s *slot) makeFolder() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}

	isSmall, err := isSmallTmpfs(s.dir)
	if err != nil {
		return err
	}
	if !isSmall {
		s.namespace, err = newNamespace(s.dir, s.uid, s.gid)
		if err == nil {
			return nil
		}
		lack := "limit of files: cannot mount a small file system for its socket: " + err.Error()
		s.lacks = append(s.lacks, lack)
	}

	if err := emptyFolder(s.dir); err != nil {
		return err
	}

	err = os.Chmod(s.dir, 0o700)
	if err != nil {
		return err
	}

	return os.Lchown(s.dir, s.uid, s.gid)
}

// clearFolder empties the folder and gives it back to root.
func (s *slot) clearFolder() error {
	switch {
	case s.namespace != nil:
		s.namespace.close()
		return nil
	case !s.own:
		return os.RemoveAll(s.dir)
	}

	return errors.Join(os.Lchown(s.dir, 0, 0), emptyFolder(s.dir))
}

// do calls f, which starts processes, in the slot's mount namespace.
func (s *slot) do(f func()) {
	if s.namespace == nil {
		f()
		return
	}
	s.namespace.do(f)
}

// isSmallTmpfs reports whether a folder is the root of a small tmpfs.
func isSmallTmpfs(dir string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false, &os.PathError{
			Op:   "statfs",
			Path: dir,
			Err:  err,
		}
	}
	size := st.Blocks * uint64(st.Bsize)
	isSmall := st.Files <= 16*folderInodes && size <= 16*folderBytes

	return isSmall && st.Type == unix.TMPFS_MAGIC, nil
}

// namespace is a thread with a mount namespace of its own. Processes that it starts are in the namespace too. It must
// live as long as they do: they are killed when the thread that started them ends.
type namespace struct {
	work chan func()
}

// newNamespace makes a namespace with a small tmpfs at dir.
func newNamespace(dir string, uid, gid int) (*namespace, error) {
	n := &namespace{work: make(chan func())}
	entered := make(chan error)

	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		err := enterNamespace(dir, uid, gid)
		entered <- err
		if err != nil {
			return
		}
		for f := range n.work {
			f()
		}
	}()

	if err := <-entered; err != nil {
		return nil, err
	}

	return n, nil
}

func enterNamespace(dir string, uid, gid int) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "")
	if err != nil {
		return &os.PathError{Op: "mount", Path: "/", Err: err}
	}
	const format = "size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d"
	options := fmt.Sprintf(format, folderBytes, folderInodes, uid, gid)
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err = unix.Mount("tmpfs", dir, "tmpfs", flags, options)
	if err != nil {
		return &os.PathError{Op: "mount", Path: dir, Err: err}
	}

	return nil
}

func (n *namespace) do(f func()) {
	done := make(chan struct{})
	n.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (n *namespace) close() {
	close(n.work)
}

// emptyFolder removes the content of a folder.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		err = errors.Join(err, os.RemoveAll(path))
	}

	return err
}
