package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	logLines = 4000    // at most so many lines
	logBytes = 1 << 20 // and so many bytes are read of a unit's log; the newest count
	logTime  = 5 * time.Second
)

// Log returns what the processes of a unit have written to the journal since a time, oldest line first, without messages of
// systemd about the unit. It runs journalctl, because go-systemd reads the journal only with cgo and libsystemd.
func Log(ctx context.Context, unit string, since time.Time) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	at := fmt.Sprintf("@%d.%06d", since.Unix(), since.Nanosecond()/1000)
	cmd := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat", fmt.Sprintf("--lines=%d", logLines), "--since="+at, "_SYSTEMD_UNIT="+unit)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	cmd.WaitDelay = time.Second
	out := &tail{most: logBytes}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &tail{most: 4 << 10, to: &stderr}
	if err := cmd.Run(); err != nil {
		if why := strings.TrimSpace(stderr.String()); why != "" {
			err = errors.New(why)
		}
		return nil, fmt.Errorf("the log of %s: %w", unit, err)
	}
	text := strings.TrimSuffix(out.text(), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}

// tail keeps the last bytes of what is written to it.
type tail struct {
	most int
	b    []byte
	to   *bytes.Buffer // or here, the first ones
}

func (t *tail) Write(p []byte) (int, error) {
	if t.to != nil {
		t.to.Write(p[:min(len(p), max(0, t.most-t.to.Len()))])
		return len(p), nil
	}
	t.b = append(t.b, p...)
	if len(t.b) > 2*t.most {
		t.b = append(t.b[:0], t.b[len(t.b)-t.most:]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return string(t.b[max(0, len(t.b)-t.most):]) }
