package nodefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is a folder that something is going to be written to, and the room on its file system.
type Disk struct {
	Path      string // the deepest existing folder, with the root in front
	Err       error  // why it could not be looked at; the fields below are then not set
	ReadOnly  bool
	Writable  bool // by this user
	FreeBytes uint64
	FreeFiles uint64
	NoFiles   bool // the file system does not count files, so FreeFiles says nothing
}

// FindDisk looks at the folder of a node's path below the root, or at the deepest existing folder above it.
func (r Root) FindDisk(path string) Disk {
	dir := filepath.Dir(filepath.Join("/", string(r), path))
	for {
		st, err := os.Stat(dir)
		if err == nil && !st.IsDir() {
			return Disk{Path: dir, Err: errors.New("it is no folder")}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return Disk{Path: dir, Err: errors.New(Reason(err))}
		}
		dir = filepath.Dir(dir)
	}

	d := Disk{Path: dir}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		d.Err = err
		return d
	}
	d.ReadOnly = s.Flags&unix.ST_RDONLY != 0
	d.Writable = unix.Access(dir, unix.W_OK|unix.X_OK) == nil
	d.FreeBytes = s.Bavail * uint64(s.Bsize)
	d.FreeFiles, d.NoFiles = s.Ffree, s.Files == 0

	return d
}

// DiskSize returns the size in bytes of the file system that a node's folder is on, or will be on once it exists. It
// returns 0 if that cannot be found out.
func (r Root) DiskSize(folder string) int64 {
	dir := r.Path(folder)
	var s unix.Statfs_t
	for err := unix.Statfs(dir, &s); err != nil; err = unix.Statfs(dir, &s) {
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return 0
		}
		dir = filepath.Dir(dir)
	}
	return int64(s.Blocks) * int64(s.Bsize)
}
