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
	"os"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

const (
	dialTimeout = 10 * time.Second
	callTimeout = 25 * time.Second // the D-Bus default; a reload of a large node takes 0.5 s
	heartbeat   = 250 * time.Millisecond
)

// ErrGone is wrapped by every error that means systemd itself did not answer, as opposed to an answer that is a
// refusal.
var ErrGone = errors.New("systemd does not answer over D-Bus")

// manager is the part of go-systemd's connection that is used, so that tests can answer in its place.
type manager interface {
	GetUnitNameByPID(ctx context.Context, pid uint32) (string, error)
	GetAllPropertiesContext(ctx context.Context, name string) (map[string]any, error)
	StartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	RestartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	StopUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error)
	ReloadContext(ctx context.Context) error
	Connected() bool
	Close()
}

// Conn is a connection to systemd. Its methods may be called from several goroutines.
type Conn struct {
	manager   manager
	pid       uint32
	heartbeat time.Duration
}

// Connect reaches systemd over its private socket, which needs root and no D-Bus daemon, and else over the system bus.
// The connection outlives ctx, because what follows a SIGTERM (opening a gate, asking for a start) still needs it:
// Close ends it.
func Connect(ctx context.Context) (*Conn, error) {
	bus, private := dial(ctx, dbus.NewSystemdConnectionContext)
	if private != nil {
		var system error
		if bus, system = dial(ctx, dbus.NewSystemConnectionContext); system != nil {
			return nil, fmt.Errorf("%w: /run/systemd/private: %w; system bus: %w", ErrGone, private, system)
		}
	}
	return &Conn{manager: bus, pid: uint32(os.Getpid()), heartbeat: heartbeat}, nil
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
func (c *Conn) Close() { c.manager.Close() }

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

func (c *Conn) properties(ctx context.Context, name string) (map[string]any, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	properties, err := c.manager.GetAllPropertiesContext(call, name)
	if err != nil {
		return nil, c.failure(call, "asking for "+name, err)
	}
	return properties, nil
}

// MayWait says whether a job of the named unit may be waited for from this process. It may not inside a unit that the
// named one is ordered after and that has a job of its own: prelet.service at boot, or while somebody restarts it. The
// named unit's job then runs only after this process has ended. A process of no unit, or of one that is not in that
// order, may wait.
func (c *Conn) MayWait(ctx context.Context, name string) (bool, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	own, err := c.manager.GetUnitNameByPID(call, c.pid)
	if err != nil {
		if err := c.failure(call, fmt.Sprintf("asking which unit runs process %d", c.pid), err); errors.Is(err, ErrGone) {
			return false, err
		}
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
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.manager.ReloadContext(call); err != nil {
		return c.failure(call, "reloading unit files", err)
	}
	return nil
}

// failure tells "no answer" (ErrGone) from "answered no".
func (c *Conn) failure(call context.Context, what string, err error) error {
	if call.Err() != nil || !c.manager.Connected() {
		return fmt.Errorf("%w: %s: %w", ErrGone, what, err)
	}
	return fmt.Errorf("systemd refused: %s: %w", what, err)
}
