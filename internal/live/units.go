package live

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/coreos/go-systemd/v22/util"

	"github.com/prelet/prelet/internal/systemd"
)

// Units is systemd's manager, reached when it is first needed. It is safe for concurrent use.
type Units struct {
	once sync.Once
	conn *systemd.Conn
	err  error
	ctx  context.Context // of the process: values only, since a connection outlives what cancels a run
}

// NewUnits connects to nothing yet.
func NewUnits(ctx context.Context) *Units { return &Units{ctx: context.WithoutCancel(ctx)} }

func (u *Units) connect() (*systemd.Conn, error) {
	u.once.Do(func() { u.conn, u.err = systemd.Connect(u.ctx) })
	return u.conn, u.err
}

// Close ends the connection, if there is one.
func (u *Units) Close() {
	u.once.Do(func() { u.err = systemd.ErrGone })
	if u.conn != nil {
		u.conn.Close()
	}
}

// Look tells what a unit is now.
func (u *Units) Look(ctx context.Context, name string) (systemd.Unit, error) {
	c, err := u.connect()
	if err != nil {
		return systemd.Unit{}, err
	}
	return c.Look(ctx, name)
}

// MayWait says whether a job of the unit may be waited for from this process.
func (u *Units) MayWait(ctx context.Context, name string) (bool, error) {
	c, err := u.connect()
	if err != nil {
		return false, err
	}
	return c.MayWait(ctx, name)
}

// Reload makes systemd read unit files again.
func (u *Units) Reload(ctx context.Context) error {
	c, err := u.connect()
	if err != nil {
		return err
	}
	return c.Reload(ctx)
}

// Start asks for a start and waits at most wait for its end.
func (u *Units) Start(ctx context.Context, name string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return systemd.Unanswered, err
	}
	return c.Start(ctx, name, wait)
}

// Restart asks for a restart and waits at most wait for its end.
func (u *Units) Restart(ctx context.Context, name string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return systemd.Unanswered, err
	}
	return c.Restart(ctx, name, wait)
}

// Stop asks for a stop and waits at most wait for its end.
func (u *Units) Stop(ctx context.Context, name string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return systemd.Unanswered, err
	}
	return c.Stop(ctx, name, wait)
}

// Clock is the machine's.
type Clock = systemd.Clock

// Notifier reports to the service manager over $NOTIFY_SOCKET of this process.
type Notifier = systemd.Notifier

// JournalLog writes journal entries with fields, from level info on; nil where no journald listens.
func JournalLog(redact func(string) string) *slog.Logger {
	if !systemd.JournalEnabled() {
		return nil
	}
	return slog.New(systemd.NewJournalHandler(journal.Send, redact, slog.LevelInfo))
}

// WaitClock returns nil as soon as somebody has set this machine's clock.
func WaitClock(ctx context.Context) error { return systemd.TimeSync{}.Wait(ctx) }

// HasSystemd says whether systemd is this machine's init, as sd_booted(3) does.
func HasSystemd() bool { return util.IsRunningSystemd() }

// OwnUnit is the unit that this process belongs to by its control group, which is how systemd itself answers that
// question (cg_pid_get_unit); "" for none. It needs no D-Bus. proc is the text of /proc/self/cgroup.
func OwnUnit(proc string) string {
	unit := ""
	for line := range strings.Lines(proc) {
		// hierarchy:controllers:path. Of version 1's many only systemd's own counts.
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[0] != "0" && f[1] != "name=systemd" {
			continue
		}
		for _, part := range strings.Split(f[2], "/") {
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				unit = part // of a user manager's units the innermost; prelet's are the system's
			}
		}
	}
	return unit
}

// SelfCgroup reads what OwnUnit wants of this process.
func SelfCgroup() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return string(b)
}

// CommandLine is the kernel command line of a node, below its root.
func CommandLine(root string) map[string]string {
	b, err := os.ReadFile(filepath.Join("/", root, "proc/cmdline"))
	if err != nil {
		return nil
	}
	return ParseCmdline(string(b))
}
