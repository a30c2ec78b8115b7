package generation

import (
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

var (
	// ErrNothing is returned by Begin when every target already is as proposed. Nothing was written.
	ErrNothing = errors.New("every file already is as planned")
	// ErrLocked is wrapped by each fault with the code fault.Locked.
	ErrLocked = errors.New("another prelet holds the lock")
	// ErrChanged reports that a target has left the state that the caller planned for. The caller plans again.
	ErrChanged = errors.New("the file changed since it was observed")
	// ErrSuperseded reports that the journal is about another generation than the caller judged.
	ErrSuperseded = errors.New("another run has superseded this generation")
	// ErrNoGeneration reports that a generation does not exist, or no longer exists.
	ErrNoGeneration = errors.New("no such generation")
)

// NewFault returns a fault with the operation (op, such as "stage" or "rename"), the path of the object as the user
// knows it, the cause, and the next step: a sentence without a full stop, which may be empty. A fault never contains
// the content of a file. OnPath returns the operation and the path.
func NewFault(code fault.Code, op, path string, cause error, next string) *fault.Fault {
	return &fault.Fault{
		Code: code,
		Err: &fs.PathError{
			Op:   op,
			Path: path,
			Err:  cause,
		},
		Next: next,
	}
}

// OnPath returns the operation, the path and the cause of a fault that NewFault made. It is false for other faults.
func OnPath(f *fault.Fault) (*fs.PathError, bool) {
	var p *fs.PathError
	if f.Summary != "" || !errors.As(f.Err, &p) {
		return nil, false
	}

	return p, true
}

// refuse returns a fault for a change that would be unsafe or impossible. Nothing was changed.
func refuse(op, path string, cause error, next string) error {
	return NewFault(fault.CannotWrite, op, path, cause, next)
}

// reportMisuse returns a fault for a call that the caller's own code should not have made.
func reportMisuse(op, path, why string) error {
	return NewFault(fault.Internal, op, path, errors.New(why), "")
}

// stuck returns a fault with fault.NeedsPerson: a file of the store is damaged or comes from a newer version, or a
// target is neither in its old nor in its new state. Nothing was touched. The next run works without a damaged file.
func (s *Store) stuck(path string, cause error) error {
	next := "prelet run"
	if s.o.Root != "" && s.o.Root != "/" {
		next += " --root " + nodefile.QuoteWord(s.o.Root)
	}
	if errors.Is(cause, ErrNewer) {
		next = "install the newer version again, or let it finish before you downgrade"
	}

	return NewFault(fault.NeedsPerson, "read", path, cause, next)
}

// isStuck reports whether an error was made by stuck.
func isStuck(err error) bool { return fault.CodeOf(err) == fault.NeedsPerson }

// isDamaged reports whether a file exists and no version wrote it like that.
func isDamaged(err error) bool {
	return isStuck(err) && !errors.Is(err, ErrNewer)
}

// isAny reports whether an error is one of some errnos.
func isAny(err error, errnos ...unix.Errno) bool {
	return slices.ContainsFunc(errnos, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}

// hints are the next steps for system errors.
var hints = []struct {
	err  error
	next string
}{
	{unix.ENOSPC, "free space or inodes on that file system and run again"},
	{unix.EDQUOT, "raise the quota or free space and run again"},
	{
		unix.EROFS,
		"the file system is read-only: remount it; or, under the hardened unit, add the folder to " +
			"ReadWritePaths= in a drop-in",
	},
	{
		unix.EPERM,
		"look for an immutable or append-only flag with lsattr, and remove it with chattr -i -a; without one, the " +
			"unit's SystemCallFilter= or CapabilityBoundingSet=, or a security module, refuses the call",
	},
	{
		unix.EACCES,
		"run as root, or check the permissions of the folders above; where root is refused, look for SELinux or " +
			"AppArmor (dmesg), the server of a network mount, or a setting of the unit",
	},
	{unix.ENOTCONN, "the program behind the mount has ended: start it, or unmount it (findmnt lists it)"},
	{unix.ESTALE, "the server of the mount no longer has it: mount it again, or unmount it (findmnt lists it)"},
	{unix.ELOOP, "a link at or above a managed file is refused: name the real path in the site"},
	{unix.ENOTDIR, "a part of the path above it is not a folder: name another path"},
	{unix.ENOENT, "create the folder, or declare it in the site"},
	{unix.EISDIR, "a folder has the name of this file: move it away"},
	{unix.EBUSY, "it is a mount point: write to the mounted file system, or unmount it"},
	{unix.EXDEV, "it is on another file system than its folder: unmount it"},
	{
		unix.EIO,
		"the device failed; a write is not repeated, because its result is unknown: look at dmesg, check the file " +
			"system (fsck, btrfs scrub) or replace the disk, then prelet run",
	},
	{unix.EMFILE, "raise the limit of open files"},
	{unix.ENFILE, "raise the limit of open files"},
	{unix.EFBIG, "raise the limit on file size"},
}

// wrap adds a code, an operation, a path and the next step to an error, unless it is a fault already. err may be nil.
func wrap(code fault.Code, op, path string, err error) error {
	var f *fault.Fault
	if err == nil || errors.As(err, &f) {
		return err
	}

	var p *fs.PathError // of package os, with another name of the same file
	if errors.As(err, &p) {
		err = p.Err
	}

	next := ""
	for _, h := range hints {
		if errors.Is(err, h.err) {
			next = h.next
			break
		}
	}

	return NewFault(code, op, path, err, next)
}

// wrapIO is wrap for an error of a system call that reads or changes a file.
func wrapIO(op, path string, err error) error {
	return wrap(fault.CannotWrite, op, path, err)
}

// afterCommit changes the code "nothing was changed" of an error to "the next run finishes the commit".
func afterCommit(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != fault.CannotWrite {
		return err
	}

	interrupted := *f
	interrupted.Code = fault.Interrupted

	return &interrupted
}
