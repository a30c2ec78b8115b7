package site

import "io/fs"

// Files is where a site's files are looked for. OS gives the real ones; tests bring their own, faults included.
type Files interface {
	// Lstat describes a name without following a link.
	Lstat(name string) (fs.FileInfo, error)
	// Readlink is where a link points.
	Readlink(name string) (string, error)
	// ReadDir lists a folder in any order.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Judge returns an error, a *nodefile.Loose, for a name that others than root and this user may change, it or what
	// is above it.
	Judge(name string) error
	// ReadFile reads a regular file and nothing else: it follows no link, waits for no FIFO, and gives an error
	// for what has more than max bytes.
	ReadFile(name string, max int64) ([]byte, error)
}
