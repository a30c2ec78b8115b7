// Package systemd is the connection to systemd: units and jobs over D-Bus, the files of a unit as systemd finds them,
// the notify socket, credentials, logind, the journal, the clock and the boot id. All communication of prelet with
// systemd goes through a Conn or a function of this package. It must not write files, and must not decide what happens
// to the kubelet.
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
	"github.com/coreos/go-systemd/v22/util"
	godbus "github.com/godbus/dbus/v5"
)

const (
	dialTimeout = 10 * time.Second
	callTimeout = 25 * time.Second // the D-Bus default; a reload of a large node takes 0.5 s
	heartbeat   = 250 * time.Millisecond

	// patience is how long a connection that ended is tried again. systemd takes less time to execute itself again
	// (daemon-reexec, which each of its upgrades does), and does not listen on its socket meanwhile.
	patience    = 5 * time.Second
	redialPause = 50 * time.Millisecond
	maxAttempts = 3 // of a call
)

// ErrGone is wrapped by every error that means that systemd itself did not respond, as opposed to a refusal.
var ErrGone = errors.New("systemd does not answer over D-Bus")

// Conn is a connection to systemd. The first call connects, and a call over a connection that ended connects again.
// It is safe for concurrent use.
type Conn struct {
	pid       uint32
	heartbeat time.Duration
	redial    func(context.Context) (*dbus.Conn, error) // nil: a connection that ended stays closed

	mu       sync.Mutex
	manager  *dbus.Conn    // nil: not connected yet
	err      error         // why the first call could not connect; every later call returns it
	patience time.Duration // of the next redial; 0 after a failure
}

// NewConn returns a connection to systemd over its private socket, which needs root and no D-Bus daemon, or else over
// the system bus. It is not connected yet.
func NewConn() *Conn {
	return &Conn{
		pid:       uint32(os.Getpid()),
		heartbeat: heartbeat,
		patience:  patience,
		redial:    func(ctx context.Context) (*dbus.Conn, error) { return connect(ctx, 0) },
	}
}

// IsRunning reports whether systemd is the init of this machine, as sd_booted(3) does.
func IsRunning() bool { return util.IsRunningSystemd() }

// connect tries the private socket as long as it exists and systemd does not listen on it, and then the system bus.
func connect(ctx context.Context, patience time.Duration) (*dbus.Conn, error) {
	for began := time.Now(); ; pause(ctx, redialPause) {
		bus, private := dial(ctx, dbus.NewSystemdConnectionContext)
		if private == nil {
			return bus, nil
		}

		isFinal := errors.Is(private, fs.ErrNotExist) || errors.Is(private, fs.ErrPermission)
		if !isFinal && time.Since(began) < patience && ctx.Err() == nil {
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
	_ = Clock{}.Sleep(ctx, d)
}

// dial adds a timeout to a connect. It does not close a connection that is made after the timeout: prelet exits then.
func dial(
	ctx context.Context, connect func(context.Context) (*dbus.Conn, error),
) (*dbus.Conn, error) {
	type reply struct {
		bus *dbus.Conn
		err error
	}
	replies := make(chan reply, 1)
	go func() {
		// go-systemd closes a connection whose context ends.
		bus, err := connect(context.WithoutCancel(ctx))
		replies <- reply{bus, err}
	}()

	select {
	case r := <-replies:
		return r.bus, r.err
	case <-time.After(dialTimeout):
		return nil, fmt.Errorf("no connection after %s", dialTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the connection. A connection that was never made is not made any more: later calls return ErrGone.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.manager == nil {
		c.err = ErrGone
		return
	}
	c.manager.Close()
}

// open returns the connection, and makes it on the first call. The connection outlives ctx, because work that follows a
// SIGTERM (opening the gate, starting a unit) still needs it.
func (c *Conn) open(ctx context.Context) (*dbus.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.manager == nil && c.err == nil {
		c.manager, c.err = connect(context.WithoutCancel(ctx), c.patience)
	}

	return c.manager, c.err
}

func (c *Conn) isCurrent(m *dbus.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.manager == m
}

// reconnect replaces a connection that ended, and reports whether there is a new one.
func (c *Conn) reconnect(ctx context.Context, dead *dbus.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.manager != dead { // another goroutine was faster
		return true
	}
	if c.redial == nil {
		return false
	}

	for began := time.Now(); ; pause(ctx, redialPause) {
		fresh, err := c.redial(ctx)
		if err == nil {
			dead.Close()
			c.manager, c.patience = fresh, patience
			return true
		}
		if time.Since(began) >= c.patience || ctx.Err() != nil {
			c.patience = 0
			return false
		}
	}
}

// call calls systemd, and repeats the call over a new connection if the connection ended. The earlier call may have
// succeeded before the connection ended: a caller whose call must not happen twice checks that.
func (c *Conn) call(
	ctx context.Context, what string, do func(ctx context.Context, m *dbus.Conn) error,
) error {
	for attempt := 1; ; attempt++ {
		m, err := c.open(ctx)
		if err != nil {
			return err
		}

		err = callOnce(ctx, m, what, do)
		if !errors.Is(err, ErrGone) || attempt == maxAttempts || ctx.Err() != nil {
			return err
		}
		if !hasLeft(m, err) || !c.reconnect(ctx, m) {
			return err
		}
	}
}

func callOnce(
	ctx context.Context,
	m *dbus.Conn,
	what string,
	do func(ctx context.Context, m *dbus.Conn) error,
) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	err := do(ctx, m)
	switch {
	case err == nil:
		return nil
	case errors.Is(whole.Err(), context.Canceled): // it was not waited for any longer
		return fmt.Errorf("%s: %w", what, context.Cause(whole))
	case ctx.Err() != nil || hasLeft(m, err):
		return fmt.Errorf("%w: %s: %w", ErrGone, what, err)
	}

	return fmt.Errorf("systemd refused: %s: %w", what, err)
}

// hasLeft reports whether the connection to systemd ended, or the system bus reports that no process has systemd's
// name.
func hasLeft(m *dbus.Conn, err error) bool {
	var reply godbus.Error
	if errors.As(err, &reply) {
		switch reply.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown",
			"org.freedesktop.DBus.Error.NameHasNoOwner",
			"org.freedesktop.DBus.Error.NoReply",
			"org.freedesktop.DBus.Error.Disconnected":
			return true
		}
	}

	var network *net.OpError // go-systemd notices a moment later that the connection ended

	return !m.Connected() || errors.As(err, &network)
}

// Look returns the state of a unit. A unit that does not exist is not an error: its Load is "not-found".
func (c *Conn) Look(ctx context.Context, name string) (Unit, error) {
	properties, err := c.readProperties(ctx, name)
	if err != nil {
		return Unit{}, err
	}
	state, err := decode(name, properties)
	if err != nil {
		return Unit{}, fmt.Errorf("properties of %s: %w", name, err)
	}

	return state, nil
}

func (c *Conn) readProperties(
	ctx context.Context, name string,
) (properties map[string]any, err error) {
	err = c.call(ctx, "asking for "+name, func(ctx context.Context, m *dbus.Conn) (err error) {
		properties, err = m.GetAllPropertiesContext(ctx, name)
		return err
	})

	return properties, err
}

// MayWait reports whether this process may wait for a job of the named unit. It may not inside a unit that the named
// one is ordered after and that has a job itself, as prelet.service at boot or during a restart: the job of the named
// unit runs only after this process has ended. A process of no unit, or of a unit without that order, may wait.
func (c *Conn) MayWait(ctx context.Context, name string) (bool, error) {
	var own string
	what := fmt.Sprintf("asking which unit runs process %d", c.pid)
	err := c.call(ctx, what, func(ctx context.Context, m *dbus.Conn) (err error) {
		own, err = m.GetUnitNameByPID(ctx, c.pid)
		return err
	})
	switch {
	case errors.Is(err, ErrGone):
		return false, err
	case err != nil: // systemd replied that no unit runs this process
		return true, nil
	}

	properties, err := c.readProperties(ctx, name)
	if err != nil {
		return false, err
	}
	after, _ := properties["After"].([]string)
	if !slices.Contains(after, own) {
		return true, nil
	}
	ours, err := c.Look(ctx, own)

	return err == nil && ours.Job == 0, err
}

// Version returns the version of systemd, such as 249.11-0ubuntu3.12; "" if it does not answer.
func (c *Conn) Version(ctx context.Context) (version string) {
	_ = c.call(ctx, "asking for its version", func(_ context.Context, m *dbus.Conn) (err error) {
		version, err = m.GetManagerProperty("Version")
		return err
	})

	return version
}

// IsRestarting reports whether the job of a unit is a restart: until the unit has stopped, its job is not yet a start.
func (c *Conn) IsRestarting(ctx context.Context, name string) (isRestarting bool, err error) {
	err = c.call(ctx, "listing jobs", func(ctx context.Context, m *dbus.Conn) error {
		jobs, err := m.ListJobsContext(ctx)
		isRestarting = slices.ContainsFunc(jobs, func(j dbus.JobStatus) bool {
			return j.Unit == name && j.JobType == "restart"
		})
		return err
	})

	return isRestarting, err
}

// Reload makes systemd read unit files again, and takes 200 to 450 ms. Queued jobs survive it, so it is safe inside a
// oneshot at boot. Call it only if a unit file or a drop-in changed; NeedDaemonReload does not see a drop-in in a new
// folder.
func (c *Conn) Reload(ctx context.Context) error {
	return c.call(ctx, "reloading unit files", func(ctx context.Context, m *dbus.Conn) error {
		return m.ReloadContext(ctx)
	})
}
