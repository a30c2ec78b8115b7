package generation

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Exit classes of errors. They are the process exit codes that the command line promises.
const (
	ExitCannotWrite = 40 // nothing was changed
	ExitStuck       = 41 // recovery needs a person
	ExitInterrupted = 42 // stopped after COMMIT, the next run finishes it
	ExitInternal    = 70 // called in a way that this package does not allow
	ExitLocked      = 75 // the lock was held until the deadline
)

var (
	// ErrNothing is returned by Begin when every target already is as proposed. Nothing was written.
	ErrNothing = errors.New("every target already is as planned")
	// ErrLocked is what an Error with ExitLocked wraps.
	ErrLocked = errors.New("another prelet holds the lock")
	// ErrChanged says that a target is no longer what the caller planned on: observe and plan anew.
	ErrChanged = errors.New("the target changed since it was observed")
	// ErrSuperseded says that the journal no longer is about the generation that was judged.
	ErrSuperseded = errors.New("another run has superseded this generation")
	// ErrNoGeneration says that a generation does not exist, or no longer.
	ErrNoGeneration = errors.New("no such generation")
)

// Error says what was tried, on which object, why it failed and what to do next. It never holds contents of files.
type Error struct {
	Op   string // what was tried, as in "stage" or "rename"
	Path string // the object, as the user knows it
	Hint string // the next step, a sentence without a full stop; may be empty
	Err  error
	Exit int // one of the Exit constants
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the process exit code of this class of error.
func (e *Error) ExitCode() int { return e.Exit }

// StuckError says that recovery needs a person (exit 41): the journal cannot be read, is of a newer version, or a target is
// neither what it was nor what it shall be. Nothing was touched.
type StuckError struct {
	Path    string
	Why     string
	Hint    string
	Err     error  // may be nil
	Journal string // the journal that tells of the interrupted commit; "" when that is Path, or there is none
	Ways    []Way  // out of it, for a person to choose from
}

// Way is one way out of what needs a person.
type Way struct {
	What    string // as in "put back the old content"
	Command string // for a shell
}

func (e *StuckError) Error() string {
	s := "recovery needs a person: " + e.Path + ": " + e.Why
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *StuckError) Unwrap() error { return e.Err }

// ExitCode is ExitStuck.
func (e *StuckError) ExitCode() int { return ExitStuck }

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

// wrap gives err an operation, a path, a hint and a class, unless it has them already.
func wrap(exit int, op, path string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	var s *StuckError
	if errors.As(err, &e) || errors.As(err, &s) {
		return err
	}
	return &Error{Op: op, Path: path, Hint: hintFor(err), Err: err, Exit: exit}
}

// afterCommit turns the class "nothing was changed" into "the next run finishes it".
func afterCommit(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Exit == ExitCannotWrite {
		c := *e
		c.Exit = ExitInterrupted
		return &c
	}
	return err
}
