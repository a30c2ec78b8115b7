package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// On a terminal, also on one without a size, Ctrl-C empties the line, Tab is ignored, and Ctrl-D ends the console.
func TestConsoleKeys(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a read that gets nothing
	defer cancel()

	for _, columns := range []uint16{0, 80} {
		master, terminal := openTerminal(t, columns)
		c := exec.CommandContext(ctx, "prelet", "console", "--from", "../../testdata/recordings/v1/gpu.prelet")
		c.Stdin, c.Stdout, c.Stderr = terminal, terminal, terminal
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_ = terminal.Close()
		shown := screen{master: master}

		for _, step := range []struct{ keys, want string }{
			{"node.na\x031 + 1\r", "\r\n2\r\n"},
			{"up\tper(\"a\")\r", "\"A\"\r\n"},
		} {
			shown.readUntil(t, "> ")
			if _, err := master.WriteString(step.keys); err != nil {
				t.Fatal(err)
			}
			got := shown.readUntil(t, "type: ")
			if !strings.Contains(got, step.want) {
				t.Errorf("%d columns, keys %q: got %q, want %q in it", columns, step.keys, got, step.want)
			}
		}

		shown.readUntil(t, "> ")
		if _, err := master.WriteString("\x04"); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%d columns, Ctrl-D: got %v, want exit status 0", columns, err)
		}
	}
}

// screen is what a terminal has shown and no step has read yet.
type screen struct {
	master *os.File
	unread string
}

// readUntil reads what the terminal shows up to a text.
func (s *screen) readUntil(t *testing.T, end string) string {
	t.Helper()

	buffer := make([]byte, 4096)
	for !strings.Contains(s.unread, end) {
		n, err := s.master.Read(buffer)
		s.unread += string(buffer[:n])
		if err != nil {
			t.Fatalf("output of the terminal: got %q and %v, want %q in it", s.unread, err, end)
		}
	}

	before, after, _ := strings.Cut(s.unread, end)
	s.unread = after
	return before
}
