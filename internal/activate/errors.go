package activate

import (
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
)

// wrapAfterCommit gives an error after the commit the code fault.Interrupted: the journal stays, and the next run
// finishes the change. Codes with a more specific meaning (NeedsPerson, Locked) are kept. Codes that promise that
// nothing was changed (CannotWrite, Systemd) are replaced.
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

// hasCode reports whether an error is, or wraps, a Fault.
func hasCode(err error) bool {
	var f *fault.Fault

	return errors.As(err, &f)
}
