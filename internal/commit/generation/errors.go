package generation

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

var (
	// ErrNothing is returned by Begin when every target already is as proposed. Nothing was written.
	ErrNothing = errors.New("every target already is as planned")
	// ErrDiffers is returned by Adopt when a target is not as proposed. Nothing was written.
	ErrDiffers = errors.New("a target is not as planned")
	// ErrLocked is what a Fault with fault.Locked wraps.
	ErrLocked = errors.New("another prelet holds the lock")
	// ErrChanged says that a target is no longer what the caller planned on: observe and plan anew.
	ErrChanged = errors.New("the target changed since it was observed")
	// ErrSuperseded says that the journal no longer is about the generation that was judged.
	ErrSuperseded = errors.New("another run has superseded this generation")
	// ErrNoGeneration says that a generation does not exist, or no longer.
	ErrNoGeneration = errors.New("no such generation")
)

// NewFault says what was tried (op, as in "stage" or "rename") on which object (path, as the user knows it), why it
// failed, and what to do next, a sentence without a full stop; next may be empty. It never holds contents of files.
// OnPath finds the operation and the object again.
func NewFault(code fault.Code, op, path string, cause error, next string) *fault.Fault {
	return &fault.Fault{Code: code, Err: &fs.PathError{Op: op, Path: path, Err: cause}, Next: next}
}

// OnPath is the operation, the object and the reason of a Fault that NewFault made; false for another.
func OnPath(f *fault.Fault) (*fs.PathError, bool) {
	var p *fs.PathError
	if f.Summary != "" || !errors.As(f.Err, &p) {
		return nil, false
	}

	return p, true
}

// StuckError is what a Fault with fault.NeedsPerson comes in: the journal cannot be read, is of a newer version, or a
// target is neither what it was nor what it shall be. Nothing was touched.
type StuckError struct {
	*fault.Fault
	Path    string // the object, as the user knows it
	Journal string // of the interrupted commit; "" when that is Path, or there is none
	Ways    []Way  // out of it, for a person to choose from
	// Commands are the way out where there is one, for a shell, one after the other. Next is the same in one line.
	Commands []string
	// Outdated says that the commit was interrupted in an earlier boot, as when the state folder was restored from a
	// backup. Then Adopt and Begin go on over its journal, and no person is needed.
	Outdated bool
}

// Way is one way out of what needs a person.
type Way struct {
	What    string // as in "put back the old content"
	Command string // for a shell
}

// stuckAside is Stuck about a file of the store: it is moved aside, and the next run does without it.
func (s *Store) stuckAside(path, why string, cause error) *StuckError {
	return s.stuckUntil(path, why, cause, aside(path))
}

// asideSuffix is what a file has at its end that was moved aside.
const asideSuffix = ".aside"

// aside is the command that moves a file aside.
func aside(path string) string { return "mv " + quoted(path) + " " + quoted(path+asideSuffix) }

// stuckUntil is Stuck with the commands after which a run goes on.
func (s *Store) stuckUntil(path, why string, cause error, commands ...string) *StuckError {
	run := "prelet run"
	if s.o.Root != "" && s.o.Root != "/" {
		run += " --root " + quoted(s.o.Root)
	}
	commands = append(commands, run)
	stuck := Stuck(path, why, strings.Join(commands, "; "), cause)
	stuck.Commands = commands

	return stuck
}

// Stuck says that recovery needs a person: at which object, why, and what to do next. cause may be nil.
func Stuck(path, why, next string, cause error) *StuckError {
	return &StuckError{Path: path, Fault: &fault.Fault{
		Code: fault.NeedsPerson, Summary: "recovery needs a person: " + path, Why: why, Next: next, Err: cause,
	}}
}

// Unwrap gives the Fault, which gives the cause.
func (e *StuckError) Unwrap() error { return e.Fault }

// hintFor is the next step for an errno, or "".
func hintFor(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return "free space or inodes on that file system and run again"
	case errors.Is(err, unix.EDQUOT):
		return "raise the quota or free space and run again"
	case errors.Is(err, unix.EROFS):
		return "the file system is read-only there: remount it, or, under the hardened unit, add the folder by a drop-in with ReadWritePaths="
	case errors.Is(err, unix.EPERM):
		return "look at lsattr for an immutable or append-only flag, and take it off with chattr -i -a"
	case errors.Is(err, unix.EACCES):
		return "run as root, or look at the permissions of the folders above"
	case errors.Is(err, unix.ELOOP):
		return "a link at or above a target is refused: name the real path in the site"
	case errors.Is(err, unix.ENOTDIR):
		return "something above the target is not a folder: name another path"
	case errors.Is(err, unix.ENOENT):
		return "create the folder, or declare it in the site"
	case errors.Is(err, unix.EBUSY):
		return "the target is a mount point: write to what is mounted there, or unmount it"
	case errors.Is(err, unix.EXDEV):
		return "the target is on another file system than its folder: unmount it"
	case errors.Is(err, unix.EIO):
		return "the device failed; its state is unknown, so it is not tried again: look at dmesg"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "raise the limit of open files"
	case errors.Is(err, unix.EFBIG):
		return "raise the limit on file size"
	}
	return ""
}

// wrap gives err an operation, a path, a hint and a code, unless it has them already.
func wrap(code fault.Code, op, path string, err error) error {
	if err == nil {
		return nil
	}

	var f *fault.Fault
	if errors.As(err, &f) {
		return err
	}

	return NewFault(code, op, path, err, hintFor(err))
}

// afterCommit turns "nothing was changed" into "the next run finishes it".
func afterCommit(err error) error {
	var f *fault.Fault
	if errors.As(err, &f) && f.Code == fault.CannotWrite {
		c := *f
		c.Code = fault.Interrupted

		return &c
	}

	return err
}
