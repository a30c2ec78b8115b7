package systemd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each way to set a clock ends the wait, and nothing else does.
func TestWaitClock(t *testing.T) {
	never := func() (bool, error) { return false, nil }
	denied := func() (bool, error) { return false, os.ErrPermission }
	early := time.Unix(3600, 0)
	cases := []struct {
		name   string
		kernel func() (bool, error)
		mark   bool          // systemd's file comes
		jump   time.Duration // of the wall clock
		set    bool
	}{
		{"set already, says the kernel", func() (bool, error) { return true, nil }, false, 0, true},
		{"set already, says systemd", denied, true, 0, true},
		{"jumps forward", denied, false, 50 * 365 * 24 * time.Hour, true},
		{"jumps back", never, false, -time.Minute, true},
		{"slewed", never, false, time.Second, false},
		{"nobody", never, false, 0, false},
		{"nobody, and the kernel may not be asked", denied, false, 0, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			run := t.TempDir()
			looks := 0
			s := clockWatch{
				mark:      filepath.Join(run, "synchronized"),
				kernel:    c.kernel,
				poll:      time.Millisecond,
				monotonic: func() time.Duration { return time.Duration(looks) * time.Millisecond },
				wall: func() time.Time {
					looks++
					now := early.Add(time.Duration(looks) * time.Millisecond)
					if looks > 3 {
						now = now.Add(c.jump)
						if c.mark {
							if err := os.WriteFile(filepath.Join(run, "synchronized"), nil, 0o644); err != nil {
								t.Error(err)
							}
						}
					}
					return now
				},
			}
			wait := time.Minute
			if !c.set {
				wait = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			err := s.wait(ctx)
			if c.set != (err == nil) {
				t.Fatalf("wait: got %v; want success %v", err, c.set)
			}
			if err != nil &&
				(!errors.Is(err, ErrClockNotSet) || !strings.Contains(err.Error(), run) || !strings.Contains(err.Error(), "1970-01-01T01:00:")) {
				t.Errorf("got %v; want %v, the file and the present time", err, ErrClockNotSet)
			}
		})
	}
}

// The kernel answers an unprivileged process, or says that it does not.
func TestKernelClock(t *testing.T) {
	if set, err := readKernelClock(); set && err != nil {
		t.Errorf("got set and %v, want one of the two", err)
	}
}
