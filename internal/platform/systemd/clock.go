package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	clockPoll = 250 * time.Millisecond
	// clockStep is a jump of the wall clock against the monotonic one that only somebody who set it makes. A clock that is
	// slewed moves by half a millisecond a second.
	clockStep = 2 * time.Second
)

// ErrClockNotSet is wrapped when nobody set the clock in time.
var ErrClockNotSet = errors.New("nobody has set the clock")

// WaitClock returns nil as soon as the clock of this machine is set; see TimeSync.Wait.
func WaitClock(ctx context.Context) error { return TimeSync{}.Wait(ctx) }

// CheckClock returns nil if the clock of this machine is set, and otherwise, at once, an error that wraps
// ErrClockNotSet.
func CheckClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	return WaitClock(ctx)
}

// TimeSync tells when this machine's clock has been set. Its zero value looks at this machine.
type TimeSync struct {
	// Run is the folder that systemd-timesyncd and systemd-time-wait-sync tell it in. Default /run/systemd/timesync.
	Run string
	// Kernel says whether the kernel's clock is disciplined, as chrony, ntpd and timesyncd tell it; an error means that it
	// may not be asked, as in the hardened unit. Default adjtimex(2), which reads only.
	Kernel func() (bool, error)
	// Wall and Monotonic are the two clocks, the second as the time since any fixed moment. Default those of the machine.
	Wall      func() time.Time
	Monotonic func() time.Duration
	// Poll is how long to wait between two looks. Default 250 ms.
	Poll time.Duration
}

// Wait returns nil as soon as the clock is known to be set: systemd's mark is there, the kernel says so, or the clock
// jumps while we wait, which covers every other way to set it. After the context's end it wraps ErrClockNotSet.
func (t TimeSync) Wait(ctx context.Context) error {
	t = t.withDefaults()
	behind := t.Wall().Sub(time.Unix(0, 0)) - t.Monotonic()
	tick := time.NewTicker(t.Poll)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(t.Run, "synchronized")); err == nil {
			return nil
		}
		if set, err := t.Kernel(); err == nil && set {
			return nil
		}
		if now := t.Wall().Sub(time.Unix(0, 0)) - t.Monotonic(); (now - behind).Abs() > clockStep {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: no %s, the kernel's clock is not disciplined, and it did not jump (%s now)", ErrClockNotSet,
				filepath.Join(t.Run, "synchronized"), t.Wall().UTC().Format(time.RFC3339))
		}
	}
}

func (t TimeSync) withDefaults() TimeSync {
	if t.Run == "" {
		t.Run = "/run/systemd/timesync"
	}
	if t.Kernel == nil {
		t.Kernel = kernelClock
	}
	if t.Wall == nil {
		t.Wall = func() time.Time { return time.Now().Round(0) }
	}
	if t.Monotonic == nil {
		began := time.Now()
		t.Monotonic = func() time.Duration { return time.Since(began) }
	}
	if t.Poll <= 0 {
		t.Poll = clockPoll
	}
	return t
}

// kernelClock reads the kernel's clock state: STA_UNSYNC is cleared by whoever disciplines the clock (adjtimex(2)).
func kernelClock() (bool, error) {
	var x unix.Timex
	state, err := unix.Adjtimex(&x)
	if err != nil {
		return false, os.NewSyscallError("adjtimex", err)
	}
	return state != unix.TIME_ERROR && x.Status&unix.STA_UNSYNC == 0, nil
}
