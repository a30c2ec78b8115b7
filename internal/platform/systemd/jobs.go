package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// jobMode lets a new job replace a queued one of the other kind, and merge with one of its own. The mode
// "ignore-dependencies" must never be used: it starts the kubelet at once, before containerd and everything else that
// it is ordered after.
const jobMode = "replace"

const unitExists = "org.freedesktop.systemd1.UnitExists"

// queueJob queues a job and returns its id. systemd sends the result of the job to a channel that is not nil.
type queueJob func(m *dbus.Conn, ctx context.Context, name, mode string, result chan<- string) (int, error)

// Start starts a unit. It merges with a queued start. It waits at most wait for the end of the job; with 0 it does not
// wait and returns Queued. On a unit in auto-restart the job lasts as long as RestartSec=: use Restart there.
func (c *Conn) Start(ctx context.Context, name string, wait time.Duration) (string, error) {
	return c.runJob(ctx, "start", (*dbus.Conn).StartUnitContext, name, wait)
}

// Restart restarts a unit. It starts a unit that does not run, and shortens RestartSec=. At boot it merges with the
// queued start, so the unit starts once. It waits as Start does. Earlier starts do not count for StartLimitBurst=, so
// that it also starts a unit that has failed too often without the gate.
func (c *Conn) Restart(
	ctx context.Context,
	name string,
	wait time.Duration,
) (string, error) {
	c.resetFailed(ctx, name)

	return c.runJob(ctx, "restart", (*dbus.Conn).RestartUnitContext, name, wait)
}

// resetFailed clears earlier failures of a unit that is about to start. If this fails, the start reports the reason.
func (c *Conn) resetFailed(ctx context.Context, name string) {
	_ = c.call(ctx, "resetting "+name, func(ctx context.Context, m *dbus.Conn) error {
		return m.ResetFailedUnitContext(ctx, name)
	})
}

// Describe sets the description of a unit until the next boot. systemd keeps it in a drop-in, and escapes it.
func (c *Conn) Describe(ctx context.Context, name, text string) error {
	return c.call(ctx, "describing "+name, func(ctx context.Context, m *dbus.Conn) error {
		return m.SetUnitPropertiesContext(ctx, name, true, dbus.PropDescription(text))
	})
}

// Stop stops a unit and waits as Start does. The wait is safe everywhere, even inside a unit that the stopped one is
// ordered after, because systemd runs stop jobs first.
func (c *Conn) Stop(ctx context.Context, name string, wait time.Duration) (string, error) {
	return c.runJob(ctx, "stop", (*dbus.Conn).StopUnitContext, name, wait)
}

// Act runs a job of a unit: "start", "restart", "try-restart" (nothing if it does not run) or "reload" (a try-restart
// if it cannot reload). It waits as Start does. A socket is restarted together with its services.
func (c *Conn) Act(
	ctx context.Context,
	verb, name string,
	wait time.Duration,
) (string, error) {
	if strings.HasSuffix(name, ".socket") {
		services, isActive, err := c.listServices(ctx, name)
		if err != nil {
			return Unanswered, err
		}
		if len(services) > 0 && (isActive || verb == "restart") {
			return c.restartSocket(ctx, name, services, wait)
		}
	}

	switch verb {
	case "start":
		return c.Start(ctx, name, wait)
	case "reload":
		return c.runJob(ctx, verb, (*dbus.Conn).ReloadOrTryRestartUnitContext, name, wait)
	case "try-restart":
		return c.runJob(ctx, verb, (*dbus.Conn).TryRestartUnitContext, name, wait)
	}

	return c.Restart(ctx, name, wait)
}

// listServices returns the services of a socket, each with whether it runs, and whether the socket is active. systemd
// refuses to start a socket while its service runs. With Accept=yes there are none: each connection has its own
// service, which continues.
func (c *Conn) listServices(ctx context.Context, socket string) (map[string]bool, bool, error) {
	properties, err := c.readProperties(ctx, socket)
	if err != nil {
		return nil, false, err
	}
	r := reader{properties: properties}
	accepts := read[bool](&r, "Accept")
	active := read[string](&r, "ActiveState")
	names := read[[]string](&r, "Triggers")
	if r.err != nil || accepts {
		return nil, false, r.err
	}

	services := map[string]bool{}
	for _, name := range names {
		u, err := c.Look(ctx, name)
		if err != nil {
			return nil, false, err
		}
		services[name] = u.Active != "inactive" && u.Active != "failed"
	}

	return services, active == "active", nil
}

// restartSocket stops a socket and its services, and starts the socket and the services that ran. A transient unit runs
// these commands, so that they finish even if this process is killed. Separate jobs would not work: if a connection
// starts a service between its stop and the start of the socket, systemd refuses to start the socket.
func (c *Conn) restartSocket(
	ctx context.Context,
	socket string,
	services map[string]bool,
	wait time.Duration,
) (string, error) {
	stop := []string{"systemctl", "stop", socket}
	start := []string{"systemctl", "start", socket}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		stop = append(stop, name)
		if services[name] {
			start = append(start, name)
		}
	}
	c.resetFailed(ctx, socket)
	description := "prelet: restart " + socket + " with its services"

	return c.runTransient(ctx, "prelet-socket", description, wait, stop, start)
}

// CreateTmpfiles runs systemd-tmpfiles --create for files in a transient unit, because prelet's own units may not write
// to the paths that the files name. It waits as Start does.
func (c *Conn) CreateTmpfiles(
	ctx context.Context, files []string, wait time.Duration,
) (string, error) {
	const description = "prelet: create the files of changed tmpfiles.d"
	create := append([]string{"systemd-tmpfiles", "--create"}, files...)

	return c.runTransient(ctx, "prelet-tmpfiles", description, wait, create)
}

// runTransient runs commands one after the other in a transient unit. systemd looks for their programs in its own
// search path, because /usr may not be merged.
func (c *Conn) runTransient(
	ctx context.Context,
	name, description string,
	wait time.Duration,
	commands ...[]string,
) (string, error) {
	type command struct { // (sasb)
		Path         string
		Args         []string
		IgnoreResult bool
	}
	var execStart []command
	for _, args := range commands {
		execStart = append(execStart, command{Path: args[0], Args: args})
	}

	properties := []dbus.Property{
		dbus.PropDescription(description), dbus.PropType("oneshot"),
		{Name: "ExecStart", Value: godbus.MakeVariant(execStart)},
		{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
	}
	start := func(
		m *dbus.Conn,
		ctx context.Context,
		name, mode string,
		result chan<- string,
	) (int, error) {
		id, err := m.StartTransientUnitContext(ctx, name, mode, properties, result)

		// If the unit exists, an earlier call succeeded and its reply was lost.
		var refused godbus.Error
		if errors.As(err, &refused) && refused.Name == unitExists {
			return m.StartUnitContext(ctx, name, mode, result)
		}

		return id, err
	}

	name = fmt.Sprintf("%s-%d.service", name, time.Now().UnixNano())

	return c.runJob(ctx, "start", start, name, wait)
}

type job struct {
	verb, unit string
	id         uint32
	bus        *dbus.Conn
	result     chan string
}

// runJob queues a job and waits for its end. If the job does not end in time, or if ctx ends, the result is Unanswered:
// the job may still be running. An error means that systemd refused the job or is gone, or that ctx ended.
func (c *Conn) runJob(
	ctx context.Context,
	verb string,
	queue queueJob,
	name string,
	wait time.Duration,
) (string, error) {
	j := job{verb: verb, unit: name}
	err := c.call(ctx, "asking to "+verb+" "+name, func(ctx context.Context, m *dbus.Conn) error {
		j.bus = m
		if wait > 0 {
			// Buffered, because go-systemd sends from its only dispatch goroutine while it holds a lock.
			j.result = make(chan string, 1)
		}
		id, err := queue(m, ctx, name, jobMode, j.result)
		j.id = uint32(id)

		return err
	})
	switch {
	case err != nil:
		return Unanswered, err
	case wait <= 0:
		return Queued, nil
	}

	return c.awaitJob(ctx, j, wait)
}

// awaitJob waits for the end of a job. Over a new connection systemd does not report the end of an old job. Then it
// polls the unit until the unit has another job or none, and derives the result from its state.
func (c *Conn) awaitJob(ctx context.Context, j job, wait time.Duration) (string, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	alive := time.NewTicker(c.heartbeat)
	defer alive.Stop()

	for {
		select {
		case result := <-j.result:
			return result, nil
		case <-deadline.C:
			return Unanswered, nil
		case <-ctx.Done():
			return Unanswered, context.Cause(ctx)
		case <-alive.C:
		}

		if c.isCurrent(j.bus) {
			if j.bus.Connected() {
				continue
			}
			if !c.reconnect(ctx, j.bus) {
				return Unanswered, fmt.Errorf(
					"%w: the connection ended during the %s of %s",
					ErrGone,
					j.verb,
					j.unit,
				)
			}
		}

		u, err := c.Look(ctx, j.unit)
		switch {
		case err != nil:
			return Unanswered, err
		case u.Load == "not-found": // the unit ended and was unloaded with its result
			return Unanswered, nil
		case u.Job != j.id:
			return resultOf(j.verb, u), nil
		}
	}
}

// resultOf returns the result of a job that left a unit in this state.
func resultOf(verb string, u Unit) string {
	hasEnded := u.Active == "inactive" || u.Active == "failed"
	hasStarted := u.Active == "active" || u.Active == "reloading"
	hasRun := u.Active == "inactive" && u.Result == "success"

	switch {
	case verb == "stop" && hasEnded, verb != "stop" && (hasStarted || hasRun):
		return Done
	}

	return Failed
}
