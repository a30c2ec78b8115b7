package systemd

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// OwnBootID returns the id of this machine's boot as BootID does, "" if it cannot be found out.
func OwnBootID(getenv func(string) string) string {
	id, err := BootID(getenv, os.DirFS("/"))
	if err != nil {
		return ""
	}
	return id
}

// BootID returns the id of this boot as 32 lower-case hexadecimal digits. The units set PRELET_BOOT_ID=%b, because a
// unit in a container with a /proc of its own reads the boot_id of the host there, which never changes. A process
// without that variable reads the id from the kernel, below root ("/" as a file system).
func BootID(getenv func(string) string, root fs.FS) (string, error) {
	const file = "proc/sys/kernel/random/boot_id"
	id, source := getenv("PRELET_BOOT_ID"), "$PRELET_BOOT_ID"
	if id == "" {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return "", fmt.Errorf("boot id: %w", err)
		}
		id, source = strings.TrimSpace(string(text)), "/"+file
	}
	plain := strings.ToLower(strings.ReplaceAll(id, "-", ""))
	if len(plain) != 32 || strings.Trim(plain, "0123456789abcdef") != "" {
		return "", fmt.Errorf("boot id: %s holds %q, which is no 128-bit id", source, id)
	}
	return plain, nil
}

// Clock is the machine's: wall time for people, CLOCK_MONOTONIC for comparing with what systemd says of a process.
type Clock struct{}

// Now is the wall time.
func (Clock) Now() time.Time { return time.Now() }

// Monotonic is the time since boot on the clock of systemd's *TimestampMonotonic properties, which stops in suspend.
func (Clock) Monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // the kernel has it since 2.6; there is no going on without a clock
	}
	return time.Duration(now.Nano())
}

// Sleep waits for d, or until ctx ends: then the error says why.
func (Clock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
