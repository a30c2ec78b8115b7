// Package systemd is the connection to systemd: units and jobs over D-Bus, the notify socket, the credentials folder,
// the journal, and the boot ID. It uses /run/systemd/private and the system bus, the sockets of notify and of journald,
// $CREDENTIALS_DIRECTORY, and /proc/sys/kernel/random/boot_id; CheckGiven also reads unit files and systemd's stores of
// credentials, and OwnUnit reads /proc/self/cgroup. It writes no file.
//
// D-Bus, the notify socket and sending to the journal are go-systemd's. Not in go-systemd, and therefore here:
// credentials, the boot ID, waiting for a set clock, the unit of this process, and whether a job may be waited for
// (MayWait). Reading the journal is there, but its sdjournal package needs cgo and libsystemd, and prelet is static and
// built without cgo, so Log runs journalctl.
//
// Facts below were measured with systemd 252: a signal reports the end of a job, and only "done" is success; StartUnit
// on a unit in auto-restart waits for RestartSec=, RestartUnit does not; a job of the kubelet must not be waited for
// from inside a unit that the kubelet is ordered after and that has a job itself, because that is a deadlock (MayWait).
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	dialTimeout = 10 * time.Second
	callTimeout = 25 * time.Second // the D-Bus default; a reload of a large node takes 0.5 s
	heartbeat   = 250 * time.Millisecond

	// patience is how long a connection that ended is tried to be made again: systemd takes less to execute itself anew
	// (daemon-reexec, which each of its upgrades does), and until then nobody listens on its socket.
	patience     = 5 * time.Second
	redialPause  = 50 * time.Millisecond
	triesOfACall = 3
)

// ErrGone is wrapped by every error that means systemd itself did not answer, as opposed to an answer that is a
// refusal.
var ErrGone = errors.New("systemd does not answer over D-Bus")

// manager is the part of go-systemd's connection that is used, so that tests can answer in its place.
type manager interface {
	GetUnitNameByPID(ctx context.Context, pid uint32) (string, error)
	GetAllPropertiesContext(ctx context.Context, name string) (map[string]any, error)
	ListUnitsByNamesContext(ctx context.Context, units []string) ([]dbus.UnitStatus, error)
	StartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	RestartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	ResetFailedUnitContext(ctx context.Context, name string) error
	TryRestartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	ReloadOrTryRestartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	StartTransientUnitContext(ctx context.Context, name, mode string, properties []dbus.Property, result chan<- string) (int, error)
	StopUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	ReloadContext(ctx context.Context) error
	Connected() bool
	Close()
}

// Conn is a connection to systemd, which is made again when it ends. Its methods may be called from several goroutines.
type Conn struct {
	pid       uint32
	heartbeat time.Duration
	redial    func(context.Context) (manager, error) // nil: a connection that ended stays so

	mu       sync.Mutex
	manager  manager
	patience time.Duration // for the next redial; 0 after one in vain
}

// Connect reaches systemd over its private socket, which needs root and no D-Bus daemon, and else over the system bus.
// The connection outlives ctx, because what follows a SIGTERM (opening a gate, asking for a start) still needs it:
// Close ends it.
func Connect(ctx context.Context) (*Conn, error) {
	bus, err := connect(ctx, patience)
	if err != nil {
		return nil, err
	}

	redial := func(ctx context.Context) (manager, error) { return connect(ctx, 0) }

	return &Conn{
		manager: bus, pid: uint32(os.Getpid()), heartbeat: heartbeat, redial: redial, patience: patience,
	}, nil
}

// connect tries the private socket for as long as it is there and nobody listens on it, and then the system bus.
func connect(ctx context.Context, patience time.Duration) (manager, error) {
	for begun := time.Now(); ; pause(ctx, redialPause) {
		bus, private := dial(ctx, dbus.NewSystemdConnectionContext)
		if private == nil {
			return bus, nil
		}

		lasts := errors.Is(private, fs.ErrNotExist) || errors.Is(private, fs.ErrPermission)
		if !lasts && time.Since(begun) < patience && ctx.Err() == nil {
			continue
		}

		bus, system := dial(ctx, dbus.NewSystemConnectionContext)
		if system != nil {
			return nil, fmt.Errorf("%w: /run/systemd/private: %w; system bus: %w", ErrGone, private, system)
		}

		return bus, nil
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// dial bounds a connect that has no timeout of its own. A connection that comes too late is closed by nobody but the
// end of the process: prelet then exits with 52 anyway.
func dial(ctx context.Context, connect func(context.Context) (*dbus.Conn, error)) (*dbus.Conn, error) {
	type answer struct {
		bus *dbus.Conn
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		bus, err := connect(context.WithoutCancel(ctx)) // go-systemd closes a connection whose context ends
		answers <- answer{bus, err}
	}()
	timer := time.NewTimer(dialTimeout)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.bus, a.err
	case <-timer.C:
		return nil, fmt.Errorf("no connection after %s", dialTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the connection.
func (c *Conn) Close() { c.current().Close() }

func (c *Conn) current() manager {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.manager
}

// reconnect replaces a connection that ended, and reports whether there is one now.
func (c *Conn) reconnect(ctx context.Context, dead manager) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.manager != dead { // another goroutine was quicker
		return true
	}

	if c.redial == nil {
		return false
	}

	for begun := time.Now(); ; pause(ctx, redialPause) {
		fresh, err := c.redial(ctx)
		if err == nil {
			dead.Close()
			c.manager, c.patience = fresh, patience

			return true
		}

		if time.Since(begun) >= c.patience || ctx.Err() != nil {
			c.patience = 0
			return false
		}
	}
}

// call calls systemd, over a new connection when the one that there is has ended. What must not be done twice is
// checked by the caller: it may have been done before the connection ended.
func (c *Conn) call(ctx context.Context, what string, do func(ctx context.Context, m manager) error) error {
	for try := 1; ; try++ {
		m := c.current()

		err := c.callOnce(ctx, m, what, do)
		if !errors.Is(err, ErrGone) || try == triesOfACall || ctx.Err() != nil || !hasLeft(m, err) || !c.reconnect(ctx, m) {
			return err
		}
	}
}

func (c *Conn) callOnce(
	ctx context.Context, m manager, what string, do func(ctx context.Context, m manager) error,
) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	err := do(call, m)

	switch {
	case err == nil:
		return nil
	case call.Err() != nil || hasLeft(m, err):
		return fmt.Errorf("%w: %s: %w", ErrGone, what, err)
	}

	return fmt.Errorf("systemd refused: %s: %w", what, err)
}

// hasLeft reports whether systemd is no longer at the other end: the connection ended, or the system bus answers that
// nobody has systemd's name.
func hasLeft(m manager, err error) bool {
	var answer godbus.Error
	if errors.As(err, &answer) {
		switch answer.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
			"org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Disconnected":
			return true
		}
	}

	var network *net.OpError

	return !m.Connected() || errors.As(err, &network) // the bus notices a moment later that its connection ended
}

// Look tells what a unit is now. A unit that does not exist is an answer (Load is "not-found"), not an error.
func (c *Conn) Look(ctx context.Context, name string) (Unit, error) {
	properties, err := c.properties(ctx, name)
	if err != nil {
		return Unit{}, err
	}
	state, err := decode(name, properties)
	if err != nil {
		return Unit{}, fmt.Errorf("properties of %s: %w", name, err)
	}
	return state, nil
}

func (c *Conn) properties(ctx context.Context, name string) (properties map[string]any, err error) {
	err = c.call(ctx, "asking for "+name, func(ctx context.Context, m manager) (err error) {
		properties, err = m.GetAllPropertiesContext(ctx, name)
		return err
	})

	return properties, err
}

// MayWait says whether a job of the named unit may be waited for from this process. It may not inside a unit that the
// named one is ordered after and that has a job of its own: prelet.service at boot, or while somebody restarts it. The
// named unit's job then runs only after this process has ended. A process of no unit, or of one that is not in that
// order, may wait.
func (c *Conn) MayWait(ctx context.Context, name string) (bool, error) {
	var own string

	err := c.call(ctx, fmt.Sprintf("asking which unit runs process %d", c.pid),
		func(ctx context.Context, m manager) (err error) {
			own, err = m.GetUnitNameByPID(ctx, c.pid)
			return err
		})
	switch {
	case errors.Is(err, ErrGone):
		return false, err
	case err != nil:
		return true, nil // systemd answered that no unit runs this process
	}

	properties, err := c.properties(ctx, name)
	if err != nil {
		return false, err
	}
	after, _ := properties["After"].([]string)
	if !slices.Contains(after, own) {
		return true, nil
	}
	ours, err := c.Look(ctx, own)
	if err != nil {
		return false, err
	}
	return ours.Job == 0, nil
}

// Reload makes systemd read unit files again, and takes 200 to 450 ms. Queued jobs survive it, so it is safe inside a
// oneshot at boot. Call it only when a unit file or a drop-in changed; NeedDaemonReload does not see a drop-in in a new
// folder.
func (c *Conn) Reload(ctx context.Context) error {
	return c.call(ctx, "reloading unit files", func(ctx context.Context, m manager) error { return m.ReloadContext(ctx) })
}
