// Package nodefile reads files of a node, below a root: contents, states, owners, the kernel command line, and the room
// on their file systems. Contents are bounded, and read without waiting, and through no link of a stranger. It also judges
// who may change a file. A fault has code Absent, Denied or FileUnusable, and names the file as the node does. The package
// never writes.
package nodefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
)

// Max is the largest file that is read, in bytes.
const Max = 2 << 20

// Root is the folder that a node's files are below; "" is /.
type Root string

// Path returns the path on this machine of a node's path.
func (r Root) Path(p string) string {
	if r == "" {
		return p
	}
	return filepath.Join(string(r), p)
}

// Text reads a regular file that is UTF-8.
func (r Root) Text(path string) (string, *fault.Fault) {
	text, _, f := r.TextAt(path)
	return text, f
}

// TextAt is Text, and the path at which the file was found: that of path without links.
func (r Root) TextAt(path string) (text, at string, f *fault.Fault) {
	b, at, f := r.read(path)
	if f == nil && !utf8.Valid(b) {
		return "", at, Unusable("%s is no UTF-8 text", path)
	}
	return string(b), at, f
}

// TextIfReadable reads a regular file that is UTF-8, "" if that fails.
func (r Root) TextIfReadable(path string) string {
	text, f := r.Text(path)
	if f != nil {
		return ""
	}
	return text
}

// Bytes reads a regular file. It looks before it opens, so that a FIFO cannot hold a boot and a device is not touched, and
// follows a link only where nobody but root and this user could have put it.
func (r Root) Bytes(path string) ([]byte, *fault.Fault) {
	b, _, f := r.read(path)
	return b, f
}

func (r Root) read(path string) (content []byte, at string, fault *fault.Fault) {
	look, err := r.Look(path, FollowTrusted)
	if err != nil {
		return nil, path, Failure(path, err)
	}
	defer look.Close()
	b, fault := look.content(path)
	if fault != nil {
		return nil, path, fault
	}
	return b, look.path, nil
}

// content reads the regular file that was found. A fault names it by path.
func (l *Look) content(path string) ([]byte, *fault.Fault) {
	if m := l.Mode(); !m.IsRegular() {
		return nil, Unusable("%s is a %s, not a file", path, KindOf(m))
	}
	f, err := l.Open()
	if err != nil {
		return nil, Failure(path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, Max+1))
	switch {
	case err != nil:
		return nil, Failure(path, err)
	case len(b) > Max:
		return nil, Unusable("%s is larger than %d MiB", path, Max>>20)
	}
	return b, nil
}

// Unusable returns the fault of a file that cannot be used. The format and its arguments are the reason.
func Unusable(format string, args ...any) *fault.Fault {
	return &fault.Fault{Code: fault.FileUnusable, Why: fmt.Sprintf(format, args...)}
}

// KindOf returns the name of a kind of file other than a regular file.
func KindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeSymlink != 0:
		return "link"
	}
	return "device"
}

// Failure returns the fault of a path that could not be read, for the error of that read.
func Failure(path string, err error) *fault.Fault {
	f := Unusable("%s: %s", path, Reason(err))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		f.Code = fault.Absent
	case errors.Is(err, fs.ErrPermission):
		f.Code, f.Next = fault.Denied, "Run as root, or give the file a mode that this user may read"
	}
	return f
}

// Reason returns the text of an error without its path, which would be the path on this machine and not the node's.
func Reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
