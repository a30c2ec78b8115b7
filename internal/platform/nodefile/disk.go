package nodefile

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is a folder that will be written to, and its file system.
type Disk struct {
	Path     string // the deepest existing folder, including the root
	Err      error  // why the folder cannot be read; the fields below are then not set
	ReadOnly bool
	Bytes    int64 // the size
	Free     int64 // bytes that can be written; 0 also if no file can be made
	Files    int64 // files that can be made
}

// FindDisk returns the disk of a node's file: that of its folder, or of the deepest existing folder above it.
func (r Root) FindDisk(path string) Disk {
	at := filepath.Dir(filepath.Join("/", string(r), path))
	d, err := Within(at, func() (Disk, error) { return findDisk(at), nil })
	if err != nil {
		return Disk{Path: at, Err: errors.New(Reason(err))}
	}

	return d
}

func findDisk(at string) Disk {
	dir, err := findExisting(at)
	if err != nil {
		return Disk{Path: dir, Err: err}
	}

	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Disk{Path: dir, Err: err}
	}

	d := Disk{
		Path:     dir,
		ReadOnly: s.Flags&unix.ST_RDONLY != 0,
		Bytes:    int64(s.Blocks) * int64(s.Bsize),
		Files:    int64(s.Ffree),
	}
	if s.Files == 0 { // some file systems do not count
		d.Files = math.MaxInt64
	}
	if d.Files > 0 {
		d.Free = int64(s.Bavail) * int64(s.Bsize)
	}

	return d
}

// findExisting returns a folder, or the deepest existing folder above it. With an error it returns the path at fault.
func findExisting(dir string) (string, error) {
	st, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != "/" {
		dir = filepath.Dir(dir)
		st, err = os.Stat(dir)
	}

	switch {
	case err != nil:
		return dir, errors.New(Reason(err))
	case !st.IsDir():
		return dir, errors.New("it is not a folder")
	}

	return dir, nil
}
