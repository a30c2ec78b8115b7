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

// OwnBootID returns the id of this machine's boot as BootID does, or "" if it cannot be read.
func OwnBootID(getenv func(string) string) string {
	id, err := BootID(getenv, os.DirFS("/"))
	if err != nil {
		return ""
	}

	return id
}

// BootID returns the id of this boot as 32 lower-case hexadecimal digits. The units set PRELET_BOOT_ID=%b, because in a
// container with its own /proc a unit reads the boot_id of the host, which never changes. Without that variable the id
// is read from the kernel, below root ("/" as a file system).
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
		return "", fmt.Errorf("invalid boot id %q in %s: expected 32 hexadecimal digits", id, source)
	}

	return plain, nil
}

// Clock is the clock of the machine: wall time for people, and CLOCK_MONOTONIC, which systemd uses for its timestamps.
type Clock struct{}

// Now returns the wall time.
func (Clock) Now() time.Time {
	return time.Now()
}

// Monotonic returns the time since boot on the clock of systemd's *TimestampMonotonic properties, which stops in
// suspend.
func (Clock) Monotonic() time.Duration {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	if err != nil {
		// Cannot happen: every kernel has this clock.
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}

	return time.Duration(now.Nano())
}

// Sleep waits for d, or until ctx ends. Then it returns the cause.
func (Clock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
