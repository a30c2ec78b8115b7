package systemd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/secret"
)

// Limits of a unit's log. The newest lines and bytes count.
const (
	logLines = 4000
	logBytes = 2 << 20 // of the export format, half of it other fields than the message
	logTime  = 5 * time.Second

	startBytes  = 256 << 10 // a kubelet's configuration has 10 KiB
	exportBytes = 32 << 20
)

// Log returns the lines that the processes of a unit have written to the journal in a boot, since a time of its
// monotonic clock, oldest first, without messages of systemd about the unit: of a wall clock that was set back, lines
// of earlier boots are later. It runs journalctl, because go-systemd needs cgo and libsystemd to read the journal.
func Log(ctx context.Context, unit, bootID string, since time.Duration) ([]string, error) {
	text, err := readNewest(
		ctx,
		"--output=export",
		"--output-fields=MESSAGE",
		"_BOOT_ID="+bootID,
		"_SYSTEMD_UNIT="+unit,
	)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", unit, err)
	}

	var lines []string
	isNew := false
	walkExport(text, func(name, value string, _ bool) {
		switch name {
		case "__MONOTONIC_TIMESTAMP":
			micros, err := strconv.ParseInt(value, 10, 64)
			isNew = err == nil && micros >= since.Microseconds()
		case "MESSAGE":
			if isNew {
				lines = append(lines, strings.Split(value, "\n")...)
			}
		}
	})

	return lines, nil
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

// HideInExport replaces the secrets in the values of the export format. An incomplete field at the end is left out.
func HideInExport(text string, hide func(string) string) string {
	var out []byte
	walkExport(text, func(name, value string, isText bool) {
		switch value = hide(value); {
		case name == "":
			out = append(out, '\n')
		case isText:
			out = fmt.Appendf(out, "%s=%s\n", name, value)
		default:
			out = binary.LittleEndian.AppendUint64(fmt.Appendf(out, "%s\n", name), uint64(len(value)))
			out = fmt.Appendf(out, "%s\n", value)
		}
	})

	return string(out)
}

// walkExport calls do for each complete field of entries in the export format, and without a name at the end of an
// entry: a field is a line NAME=VALUE or, for any bytes, the line NAME, the size in eight bytes, and the value.
// Source: systemd.io/JOURNAL_EXPORT_FORMATS.
func walkExport(text string, do func(name, value string, isText bool)) {
	for {
		line, rest, isWhole := strings.Cut(text, "\n")
		if !isWhole {
			return
		}

		name, value, isText := strings.Cut(line, "=")
		if name != "" && !isText {
			const sizeBytes = 8
			if len(rest) < sizeBytes {
				return
			}
			size := binary.LittleEndian.Uint64([]byte(rest[:sizeBytes]))
			rest = rest[sizeBytes:]
			if size >= uint64(len(rest)) {
				return
			}
			value, rest = rest[:size], rest[size+1:]
		}
		do(name, value, isText)
		text = rest
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

// readNewest returns the newest entries that journalctl prints in the export format.
func readNewest(ctx context.Context, args ...string) (string, error) {
	newest := &secret.Tail{Most: logBytes}
	err := runJournalctl(ctx, newest, append([]string{fmt.Sprintf("--lines=%d", logLines)}, args...)...)

	text := newest.Text()
	if strings.HasPrefix(text, "…") {
		_, text, _ = strings.Cut(text, "\n\n__CURSOR") // the rest is a field without a name
	}

	return text, err
}

// runJournalctl writes to stdout what journalctl prints. Its error is that of journalctl.
func runJournalctl(ctx context.Context, stdout io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()

	args = append([]string{"--quiet", "--no-pager"}, args...)
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	cmd.WaitDelay = time.Second
	stderr := &secret.Tail{Most: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if why := strings.TrimSuffix(stderr.Text(), "\n"); err != nil && why != "" {
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
