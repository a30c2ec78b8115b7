package activate

import (
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
)

// afterCommit gives an error that came after COMMIT the code that says so: the journal stays, and the next run finishes
// it. Errors that bring a code that means more (NeedsPerson, Locked) keep it; those that promise that nothing was
// changed (CannotWrite, Systemd) do not, nor does one without a code.
func wrapAfterCommit(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case hasCode(err) && fault.CodeOf(err) != fault.Systemd && fault.CodeOf(err) != fault.CannotWrite:
		return fmt.Errorf("%s: %w", what, err)
	}

	return &fault.Fault{
		Code: fault.Interrupted, Summary: what, Err: err, Next: "the journal is kept: the next run finishes this",
	}
}

func systemdFault(what string, err error) error {
	return &fault.Fault{
		Code: fault.Systemd, Summary: what, Err: err, Next: "nothing was changed; look at systemctl status",
	}
}

// hasCode says whether an error is, or wraps, a Fault.
func hasCode(err error) bool {
	var f *fault.Fault

	return errors.As(err, &f)
}
