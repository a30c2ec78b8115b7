package runner

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sweep kills all other processes of this user, which must be the given user of a detector. It refuses to run with
// any capability, because the same call would then kill all processes of the machine.
func Sweep(uid int) error {
	actual, effective, saved := unix.Getresuid()
	isUser := actual == uid && effective == uid && saved == uid
	if uid <= 0 || !isUser {
		return fmt.Errorf("the uids are %d, %d and %d, want %d", actual, effective, saved, uid)
	}

	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	var data [2]unix.CapUserData // the low and the high half
	err := unix.Capget(&header, &data[0])
	if err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	effectiveCaps := data[0].Effective | data[1].Effective
	permittedCaps := data[0].Permitted | data[1].Permitted
	if effectiveCaps != 0 || permittedCaps != 0 {
		return errors.New("this process has capabilities")
	}

	err = unix.Kill(-1, unix.SIGKILL)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}

	return nil
}
