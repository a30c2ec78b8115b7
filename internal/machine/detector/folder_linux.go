package detector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Limits for the folder of a detector's socket. prelet's units mount such a folder for each slot.
const (
	folderBytes  = 64 << 10
	folderInodes = 256
)

// makeFolder makes the slot's private folder: empty, owned by the detector, and a small tmpfs, so that a detector
// cannot use up the inodes and the memory of /run. prelet's units mount it. Otherwise it is mounted until the slot is
// released. If that fails, the slot reports it.
func (s *slot) makeFolder() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}

	if s.unclean { // a prelet that was killed left its mount; prelet's units may not unmount theirs
		_ = unix.Unmount(s.dir, unix.MNT_DETACH)
	}
	isSmall, err := isSmallTmpfs(s.dir)
	if err != nil {
		return err
	}
	if !isSmall {
		options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700", folderBytes, folderInodes)
		const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
		err := unix.Mount("tmpfs", s.dir, "tmpfs", flags, options)
		s.isMounted = err == nil
		if err != nil {
			lack := "limit of files: cannot mount a small file system for its socket: " + err.Error()
			s.lacks = append(s.lacks, lack)
		}
	}

	err = emptyFolder(s.dir)
	if err == nil {
		err = os.Chmod(s.dir, 0o700)
	}
	if err == nil {
		err = os.Lchown(s.dir, s.uid, s.gid)
	}
	if err != nil && s.isMounted {
		err = errors.Join(err, unix.Unmount(s.dir, unix.MNT_DETACH))
	}

	return err
}

// clearFolder empties the folder and gives it back to root.
func (s *slot) clearFolder() error {
	switch {
	case s.isMounted: // a process that could not be ended may still use it
		return unix.Unmount(s.dir, unix.MNT_DETACH)
	case !s.own:
		return os.RemoveAll(s.dir)
	}

	return errors.Join(os.Lchown(s.dir, 0, 0), emptyFolder(s.dir))
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

// emptyFolder removes the content of a folder.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		err = errors.Join(err, os.RemoveAll(path))
	}

	return err
}
