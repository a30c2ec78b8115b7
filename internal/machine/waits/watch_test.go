package waits

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// TestWatch stops a command while it reads a file that hangs, and one that changes the node.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name    string
		path    string // what it waits for
		isShort bool   // each read is answered after 100 ms
		want    string // in its output
		writes  bool
		exits   bool
		isEnded bool // it ends by itself, a second after the signal
	}{
		{name: "hangs", path: "/mnt/dead", want: "waiting for /mnt/dead: its file system does not answer", exits: true},
		{name: "reads", want: "stopped by a signal", exits: true},
		{name: "changes the node", writes: true, want: "it ends after what it has begun"},
		{name: "reads a busy disk while it changes the node", path: "/var", isShort: true, writes: true,
			want: "it ends after what it has begun"},
		{name: "ends by itself", isEnded: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out []string
				status := -1
				var exited time.Time
				w := Watch{
					Waiting: func(atLeast time.Duration) []string {
						if c.path == "" || c.isShort && atLeast > 100*time.Millisecond {
							return nil
						}

						return []string{c.path}
					},
					Print:  func(line string) { out = append(out, line) },
					Writes: c.writes,

					Exit: func(s int) { status, exited = s, time.Now() },
				}
				ctx, cancel := context.WithCancel(t.Context())
				stop := w.Start(ctx)
				time.Sleep(3 * time.Second)
				stopped := time.Now()
				cancel()
				time.Sleep(time.Second)
				if !c.isEnded {
					time.Sleep(time.Minute)
				}
				stop()

				got := strings.Join(out, "\n")
				if !strings.Contains(got, c.want) || c.want == "" && got != "" {
					t.Errorf("output: got %q, want %q", got, c.want)
				}
				if strings.Count(got, c.want) > 1 && c.want != "" {
					t.Errorf("output: got %q, want each line once", got)
				}
				isExit := status == fault.Interrupted.Exit() && exited.Sub(stopped) <= 2*time.Second
				if isExit != c.exits {
					t.Errorf("exit: got %d after %s, want one within 2s: %t", status, exited.Sub(stopped), c.exits)
				}
			})
		})
	}
}
