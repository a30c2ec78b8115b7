package systemd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Limits of a unit's log. The newest lines and bytes count.
const (
	logLines = 4000
	logBytes = 1 << 20
	logTime  = 5 * time.Second

	startBytes  = 256 << 10 // a kubelet's configuration has 10 KiB
	exportBytes = 32 << 20
)

// Log returns the lines that the processes of a unit have written to the journal since a time, oldest first, without
// messages of systemd about the unit. It runs journalctl, because go-systemd needs cgo and libsystemd to read the
// journal.
func Log(ctx context.Context, unit string, since time.Time) ([]string, error) {
	text, err := readNewest(
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

// ExportLog returns the newest entries of the journal of this boot from and about units, in the export format, which
// systemd-journal-remote reads. It may hold secrets: see HideInExport. The fields do not identify the machine.
func ExportLog(ctx context.Context, units ...string) (string, error) {
	args := []string{
		"--boot",
		fmt.Sprintf("--lines=%d", logLines),
		"--output=export",
		"--output-fields=MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT,UNIT," +
			"PRELET_STAGE,PRELET_GENERATION",
	}
	for _, unit := range units {
		args = append(args, "--unit="+unit)
	}

	entries := &head{limit: exportBytes}
	err := runJournalctl(ctx, entries, args...)
	if err != nil && !entries.isFull {
		return "", fmt.Errorf("reading the journal of this boot: %w", err)
	}

	return string(entries.b), nil
}

// HideInExport replaces the secrets in the values of the export format: a field is a line NAME=VALUE or, for any bytes,
// the line NAME, the size in eight bytes, and the value. An incomplete field at the end is left out.
// Source: systemd.io/JOURNAL_EXPORT_FORMATS.
func HideInExport(text string, hide func(string) string) string {
	export := []byte(text)
	var out []byte
	for {
		line, rest, isWhole := bytes.Cut(export, []byte("\n"))
		name, value, isText := bytes.Cut(line, []byte("="))

		switch {
		case !isWhole:
			return string(out)
		case isText:
			out = fmt.Appendf(out, "%s=%s\n", name, hide(string(value)))
		case len(name) == 0: // the end of an entry
			out = append(out, '\n')
		default:
			size := uint64(len(rest))
			if size > 8 {
				size = 8 + binary.LittleEndian.Uint64(rest)
			}
			if size >= uint64(len(rest)) {
				return string(out)
			}
			text := hide(string(rest[8:size]))
			out = binary.LittleEndian.AppendUint64(fmt.Appendf(out, "%s\n", name), uint64(len(text)))
			out = fmt.Appendf(out, "%s\n", text)
			rest = rest[size+1:]
		}
		export = rest
	}
}

// StartLog returns the first lines that a process of a unit has written to the journal in this boot, oldest first: at
// most startBytes.
func StartLog(ctx context.Context, unit string, pid uint32) ([]string, error) {
	first := &head{limit: startBytes}
	err := runJournalctl(
		ctx,
		first,
		"--boot",
		"--output=cat",
		"_SYSTEMD_UNIT="+unit,
		fmt.Sprintf("_PID=%d", pid),
	)
	if err != nil && !first.isFull {
		return nil, fmt.Errorf("reading the first lines of %s: %w", unit, err)
	}

	lines := strings.Split(string(first.b), "\n")

	return lines[:len(lines)-1], nil // the last one is empty, or cut off
}

// readNewest returns the newest lines that journalctl prints, without the last line break.
func readNewest(ctx context.Context, args ...string) (string, error) {
	newest := &tail{limit: logBytes}
	err := runJournalctl(ctx, newest, append([]string{fmt.Sprintf("--lines=%d", logLines)}, args...)...)

	return newest.text(), err
}

// runJournalctl writes to stdout what journalctl prints. Its error is that of journalctl.
func runJournalctl(ctx context.Context, stdout io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()

	args = append([]string{"--quiet", "--no-pager"}, args...)
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	cmd.WaitDelay = time.Second
	stderr := &tail{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if why := stderr.text(); err != nil && why != "" {
		err = errors.New(why)
	}

	return err
}

// head is a writer that keeps the first bytes, and refuses more.
type head struct {
	limit  int
	b      []byte
	isFull bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.b))
	h.b = append(h.b, p[:n]...)
	if n < len(p) {
		h.isFull = true
		return n, io.ErrShortWrite // ends journalctl
	}

	return n, nil
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
