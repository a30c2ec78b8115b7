package activate

import (
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/generation"
)

// Exit codes that come from here. Those of the Store's errors are its own.
const (
	ExitInterrupted  = 42 // stopped: after COMMIT, the next run finishes it
	ExitUnhealthy    = 50 // unhealthy; rolled back where there was something good to go back to
	ExitStillIll     = 51 // what was gone back to is unhealthy too
	ExitSystemd      = 52 // before COMMIT; nothing changed
	ExitUsage        = 64
	ExitInternalFlaw = 70
)

// Error says what could not be done to which unit, why, and what to do next.
type Error struct {
	Exit int
	What string
	Hint string // the next step, without a full stop; may be empty
	Err  error  // may be nil
}

func (e *Error) Error() string {
	s := e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the exit code of prelet.
func (e *Error) ExitCode() int { return e.Exit }

// afterCommit gives an error that came after COMMIT the code that says so: the journal stays, and the next run finishes it.
// Errors that bring a code that means more (41, 75) keep it; those that promise that nothing was changed (40, 52) do not.
func afterCommit(what string, err error) error {
	if err == nil {
		return nil
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) && coded.ExitCode() != ExitSystemd && coded.ExitCode() != generation.ExitCannotWrite {
		return fmt.Errorf("%s: %w", what, err)
	}
	return &Error{Exit: ExitInterrupted, What: what, Err: err, Hint: "the journal is kept: the next run finishes this"}
}

func systemdTrouble(what string, err error) error {
	return &Error{Exit: ExitSystemd, What: what, Err: err, Hint: "nothing was changed; look at systemctl status"}
}
