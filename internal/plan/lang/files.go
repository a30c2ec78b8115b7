package lang

import "io/fs"

// Files is the file system of a site. OS returns that of this machine; tests have their own.
type Files interface {
	// Lstat describes a name without following a link.
	Lstat(name string) (fs.FileInfo, error)
	// Readlink returns the target of a link.
	Readlink(name string) (string, error)
	// ReadDir lists a directory in any order.
	ReadDir(name string) ([]fs.DirEntry, error)
	// CheckTrusted returns a *nodefile.Loose for a name that other users than root and this one may change, directly or
	// through a directory above it.
	CheckTrusted(name string) error
	// ReadFile reads a regular file of at most max bytes. It follows no link and does not wait for a FIFO.
	ReadFile(name string, max int64) ([]byte, error)
}
