package activation

import (
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
)

// wrapAfterCommit gives an error after the commit the code fault.Interrupted: the journal stays, and the next run
// finishes the change. Codes with a more specific meaning (NeedsPerson) are kept. Codes that promise that nothing was
// changed (CannotWrite, Systemd, Locked) are replaced.
func wrapAfterCommit(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case !promisesUnchanged(err):
		return fmt.Errorf("%s: %w", what, err)
	}

	return &fault.Fault{
		Code:    fault.Interrupted,
		Summary: what,
		Err:     err,
		Next:    "the journal is kept: the next run finishes this",
	}
}

// promisesUnchanged reports whether the code of an error means that nothing was changed, or is missing.
func promisesUnchanged(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Systemd, fault.CannotWrite, fault.Locked:
		return true
	}

	return !errors.As(err, new(*fault.Fault))
}

// systemdFault returns the error of a request to systemd; nil if err is nil.
func systemdFault(what string, err error) error {
	if err == nil {
		return nil
	}

	return &fault.Fault{
		Code:    fault.Systemd,
		Summary: what,
		Err:     err,
		Next:    "nothing was changed; look at systemctl status",
	}
}
