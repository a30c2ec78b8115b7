package pluginhost

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What a detector may make in the folder of its socket. prelet's units mount a folder for each slot; these are their numbers.
const (
	folderBytes  = 64 << 10
	folderInodes = 256
)

// removeFor is how long a folder is emptied that has no bounds of its own. What is left then keeps the slot from being used.
const removeFor = 200 * time.Millisecond

// folder makes the slot's private folder, empty, and the detector's own. It is a small tmpfs: what a detector makes there must
// not come out of the inodes and the memory of /run. prelet's units bring one. Elsewhere it is mounted in a mount namespace that
// only this slot's processes have, and that goes with them. Where neither can be, the slot reports it.
func (s *slot) folder() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}

	bounded, err := isBounded(s.dir)
	if err != nil {
		return err
	}
	if !bounded {
		if s.room, err = newRoom(s.dir, s.uid, s.gid); err == nil {
			return nil
		}
		s.lacks = append(s.lacks, "limit of files: no small file system could be mounted for its socket: "+err.Error())
	}

	if err := emptyFolder(s.dir, time.Now().Add(removeFor)); err != nil {
		return err
	}

	return errors.Join(os.Chmod(s.dir, 0o700), os.Lchown(s.dir, s.uid, s.gid))
}

// clear leaves an empty folder behind, that of nobody but root.
func (s *slot) clear() error {
	if s.room != nil {
		s.room.close()
		return nil
	}
	if !s.own {
		return errors.Join(emptyFolder(s.dir, time.Now().Add(removeFor)), os.Remove(s.dir))
	}

	return errors.Join(os.Lchown(s.dir, 0, 0), emptyFolder(s.dir, time.Now().Add(removeFor)))
}

// start runs a function that starts processes, so that these have the slot's own view of the machine.
func (s *slot) start(f func()) {
	if s.room == nil {
		f()
		return
	}
	s.room.do(f)
}

// isBounded reports whether a folder is a tmpfs of its own that is small.
func isBounded(dir string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	isSmall := st.Files <= 16*folderInodes && st.Blocks*uint64(st.Bsize) <= 16*folderBytes

	return st.Type == unix.TMPFS_MAGIC && isSmall, nil
}

// room is a thread with a mount namespace of its own. What it starts is in there too. It lives as long as these: a process
// that asked for the death of its parent dies with the thread that started it.
type room struct {
	work chan func()
}

// newRoom makes one with a small tmpfs at dir.
func newRoom(dir string, uid, gid int) (*room, error) {
	r := &room{work: make(chan func())}
	entered := make(chan error)

	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		err := enterRoom(dir, uid, gid)
		entered <- err
		if err != nil {
			return
		}
		for f := range r.work {
			f()
		}
	}()

	if err := <-entered; err != nil {
		return nil, err
	}

	return r, nil
}

func enterRoom(dir string, uid, gid int) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: "/", Err: err}
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d", folderBytes, folderInodes, uid, gid)
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return &os.PathError{Op: "mount", Path: dir, Err: err}
	}

	return nil
}

func (r *room) do(f func()) {
	done := make(chan struct{})
	r.work <- func() { defer close(done); f() }
	<-done
}

func (r *room) close() { close(r.work) }

// errNotEmpty is a folder of which something is left when its time is over.
var errNotEmpty = errors.New("what a detector left there is not removed yet")

// emptyFolder removes what is in a folder, until a time. However deep folders are nested in it, it opens two: it brings those
// that it finds in a folder up one level, and removes them from there.
func emptyFolder(dir string, until time.Time) error {
	top, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer top.Close()

	for {
		names, err := readSome(top)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if time.Now().After(until) {
				return &os.PathError{Op: "remove", Path: filepath.Join(dir, name), Err: errNotEmpty}
			}
			if err := removeFlat(top, name, until); err != nil {
				return &os.PathError{Op: "remove", Path: filepath.Join(dir, name), Err: err}
			}
		}
	}
}

// readSome returns some of the names in a folder, from its beginning.
func readSome(f *os.File) ([]string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(512)
	if errors.Is(err, io.EOF) {
		err = nil
	}

	return names, err
}

// removeFlat removes one name from a folder. Of a folder it removes the files, and moves the folders up beside it.
func removeFlat(top *os.File, name string, until time.Time) error {
	at := int(top.Fd())
	err := unix.Unlinkat(at, name, 0)
	if err == nil || !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	if err == nil || !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}

	_ = unix.Fchmodat(at, name, 0o700, 0) // without the right to pass every file, its owner's mode decides; opening says more
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	inner := os.NewFile(uintptr(fd), name)
	defer inner.Close()

	for n := 0; ; n++ {
		names, err := readSome(inner)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		}
		for i, child := range names {
			if time.Now().After(until) {
				return errNotEmpty
			}
			err := unix.Unlinkat(fd, child, 0)
			if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
				err = unix.Renameat(fd, child, at, freeName(n, i))
			}
			if err != nil {
				return err
			}
		}
	}
}

// freeName is a name that is not in the folder: it has the time in it.
func freeName(n, i int) string {
	return strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(n) + "-" + strconv.Itoa(i)
}
