package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	clockPoll = 250 * time.Millisecond
	// clockStep is a jump of the wall clock against the monotonic clock that shows that the clock was set. A clock
	// that is slewed moves by half a millisecond a second.
	clockStep = 2 * time.Second
	// clockMark is the file by which systemd-timesyncd and systemd-time-wait-sync report that the clock is set.
	clockMark = "/run/systemd/timesync/synchronized"
)

// ErrClockNotSet is wrapped if the clock was not set in time.
var ErrClockNotSet = errors.New("the clock is not set")

// WaitClock returns nil as soon as the clock of this machine is known to be set: systemd's mark exists, the kernel
// reports it, or the clock jumps during the wait, which covers every other way to set it. When ctx ends, the error
// wraps ErrClockNotSet.
func WaitClock(ctx context.Context) error {
	began := time.Now()
	c := clockWatch{
		mark:      clockMark,
		kernel:    readKernelClock,
		wall:      func() time.Time { return time.Now().Round(0) },
		monotonic: func() time.Duration { return time.Since(began) },
		poll:      clockPoll,
	}

	return c.wait(ctx)
}

// clockWatch waits until a clock is set.
type clockWatch struct {
	mark string
	// kernel reports whether a daemon such as chrony, ntpd or timesyncd disciplines the kernel's clock. An error means
	// that the process may not read that state, as in the hardened unit.
	kernel    func() (bool, error)
	wall      func() time.Time
	monotonic func() time.Duration // since any fixed moment
	poll      time.Duration
}

func (c clockWatch) wait(ctx context.Context) error {
	offset := c.readOffset()
	tick := time.NewTicker(c.poll)
	defer tick.Stop()

	for {
		if _, err := os.Stat(c.mark); err == nil {
			return nil
		}
		if set, err := c.kernel(); err == nil && set {
			return nil
		}
		if (c.readOffset() - offset).Abs() > clockStep {
			return nil
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			now := c.wall().UTC().Format(time.RFC3339)
			return fmt.Errorf(
				"%w: %s does not exist, no daemon disciplines the kernel's clock, and the clock did not jump "+
					"(%s now)",
				ErrClockNotSet,
				c.mark,
				now,
			)
		}
	}
}

func (c clockWatch) readOffset() time.Duration {
	return c.wall().Sub(time.Unix(0, 0)) - c.monotonic()
}

// readKernelClock reads the kernel's clock state. A daemon that disciplines the clock clears STA_UNSYNC (adjtimex(2)).
func readKernelClock() (bool, error) {
	var x unix.Timex
	state, err := unix.Adjtimex(&x)
	if err != nil {
		return false, os.NewSyscallError("adjtimex", err)
	}

	return state != unix.TIME_ERROR && x.Status&unix.STA_UNSYNC == 0, nil
}
