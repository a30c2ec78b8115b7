// Package nodefile reads files of a node below a root: contents, states, owners, the kernel command line, and the
// space on their file systems. Text and Bytes read a file with a size limit, without waiting, and through no link of
// another user; FindLoose reports who may change a file. The package must not write.
//
// A fault has code Absent, Denied, NoAnswer or FileUnusable, and names the path on the node; that of Untrusted has
// ClusterUntrusted.
package nodefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
)

// Max is the size in bytes of the largest file that is read.
const Max = 2 << 20

// MaxContent is the size in bytes above which a managed file is neither read nor written.
const MaxContent = 8 << 20

// Root is the folder that contains a node's files; "" is /.
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
	found, f := r.FindText(path)

	return found.Text, f
}

// FoundText is the text of a file.
type FoundText struct {
	Text     string
	Path     string // without links
	IsPublic bool   // see Look.IsPublic
	Loose    *Loose // see Look.Loose
}

// FindText is Text, and also returns which file it is, and whether everyone may read it.
func (r Root) FindText(path string) (FoundText, *fault.Fault) {
	return r.readText(path, FollowTrusted)
}

// readText is read for a file that is UTF-8.
func (r Root) readText(path string, links Links) (found FoundText, f *fault.Fault) {
	found, f = r.read(path, links)
	if f == nil && !utf8.ValidString(found.Text) {
		found.Text = ""
		f = Unusable("%s is not UTF-8 text", path)
	}

	return found, f
}

// read reads a regular file. Without its text the rest of the result is known all the same.
func (r Root) read(path string, links Links) (found FoundText, f *fault.Fault) {
	look, err := r.Look(path, links)
	if err != nil {
		return found, Failure(path, err)
	}
	defer look.Close()
	found.Path = look.path
	found.IsPublic = look.IsPublic()
	found.Loose = look.Loose

	b, err := look.Read(Max)
	if err != nil {
		return found, Failure(path, err)
	}
	found.Text = string(b)

	return found, nil
}

// TextIfReadable reads a regular file that is UTF-8. It returns "" if that fails.
func (r Root) TextIfReadable(path string) string {
	text, _ := r.Text(path)

	return text
}

// Bytes reads a regular file. It checks the kind before it opens the file, so that a FIFO cannot block a boot and a
// device is not touched. It follows a link only if no other user than root and this one could have made it.
func (r Root) Bytes(path string) ([]byte, *fault.Fault) {
	found, f := r.read(path, FollowTrusted)

	return []byte(found.Text), f
}

// Unusable returns the fault of a file that cannot be used. The format and its arguments are the reason.
func Unusable(format string, args ...any) *fault.Fault {
	return &fault.Fault{Code: fault.FileUnusable, Why: fmt.Sprintf(format, args...)}
}

// KindOf returns the name of a kind of file.
func KindOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
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
	case errors.As(err, new(*NoAnswerError)):
		f.Code = fault.NoAnswer
		f.Next = NextNoAnswer
	case IsFailing(err):
		f.Code = fault.NoAnswer
		f.Next = NextFailing
	case errors.Is(err, fs.ErrPermission):
		f.Code = fault.Denied
		f.Next = NextDenied("Run as root, or give the file a mode that this user may read")
	}

	return f
}

// IsFailing reports whether an error is one of the device or the server of a file system, and not about the path.
func IsFailing(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EIO, syscall.EREMOTEIO, syscall.EBADMSG, syscall.EUCLEAN, syscall.ENOTCONN, syscall.ESTALE,
		syscall.EHOSTDOWN, syscall.ETIMEDOUT,
	}, func(failing syscall.Errno) bool { return errors.Is(err, failing) })
}

// NextNoAnswer is the next step of a path on a file system that does not answer.
const NextNoAnswer = "Make its server answer, or unmount it: umount -l, with the mount above it that findmnt lists"

// NextFailing is the next step after such an error.
const NextFailing = "Look at dmesg. If a disk fails, check its file system or replace it; if a server or program " +
	"behind the mount has ended, start it, or unmount it: umount -l, with the mount that findmnt lists"

// IsFailed reports whether a fault of Failure is that of a path that the device or the server failed to read.
func IsFailed(f *fault.Fault) bool { return f.Code == fault.NoAnswer && f.Next == NextFailing }

// NextDenied returns the next step of a user who may not read a path, which is other for all but root.
func NextDenied(other string) string {
	if os.Geteuid() != 0 {
		return other
	}

	return "Root may not read it either: look for what refuses it, such as SELinux or AppArmor (dmesg), the " +
		"server of a network mount, or a setting of the unit"
}

// Reason returns the text of an error without its path, which would be the path on this machine and not the node's.
func Reason(err error) string { return stripPath(err).Error() }

func stripPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}

	return err
}

// NamedFailure returns the failure of a path that a user named, which label is in front of, for the error of a read of
// it. missing is what to say if it does not exist, as in "no such folder".
func NamedFailure(label, path, missing string, err error) *fault.Fault {
	f := Failure(label+path, err)
	switch f.Code {
	case fault.NoAnswer:
		f.Summary, f.Why = f.Why, ""

		return f
	case fault.Absent:
		missing += SuggestBeside(path)
	default:
		missing = Reason(err)
	}

	return &fault.Fault{Code: fault.Usage, Summary: label + path + ": " + missing}
}
