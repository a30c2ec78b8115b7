package systemd

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Limits of a unit's log. The newest lines and bytes count.
const (
	logLines = 4000
	logBytes = 1 << 20
	logTime  = 5 * time.Second
)

// Log returns the lines that the processes of a unit have written to the journal since a time, oldest first, without
// messages of systemd about the unit. It runs journalctl, because go-systemd needs cgo and libsystemd to read the
// journal.
func Log(ctx context.Context, unit string, since time.Time) ([]string, error) {
	text, err := runJournalctl(
		ctx,
		"--output=cat",
		fmt.Sprintf("--since=@%d.%06d", since.Unix(), since.Nanosecond()/1000),
		"_SYSTEMD_UNIT="+unit,
	)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", unit, err)
	}
	if text == "" {
		return nil, nil
	}

	return strings.Split(text, "\n"), nil
}

// BootLog returns the newest lines of the journal of this boot from and about units, with times, oldest first.
func BootLog(ctx context.Context, units ...string) (string, error) {
	args := []string{"--boot", "--output=short-iso-precise"}
	for _, unit := range units {
		args = append(args, "--unit="+unit)
	}

	text, err := runJournalctl(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("reading the journal of this boot: %w", err)
	}

	return text, nil
}

// runJournalctl returns the newest lines that journalctl prints, without the last line break.
func runJournalctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()

	args = append([]string{"--quiet", "--no-pager", fmt.Sprintf("--lines=%d", logLines)}, args...)
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	cmd.WaitDelay = time.Second
	stdout, stderr := &tail{limit: logBytes}, &tail{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if why := stderr.text(); err != nil && why != "" {
		err = errors.New(why)
	}

	return stdout.text(), err
}

// tail is a writer that keeps the last bytes.
type tail struct {
	limit int
	b     []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 2*t.limit {
		last := t.b[len(t.b)-t.limit:]
		t.b = append(t.b[:0], last...)
	}

	return len(p), nil
}

// text returns the last bytes without the line break at their end.
func (t *tail) text() string {
	last := t.b[max(0, len(t.b)-t.limit):]

	return strings.TrimSuffix(string(last), "\n")
}
