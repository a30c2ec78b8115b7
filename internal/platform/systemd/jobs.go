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

// jobMode lets a new job take the place of a queued one of the other kind, and merge with one of its own. The mode
// "ignore-dependencies" must never stand here: it starts the kubelet at once, past all ordering, containerd's too.
const jobMode = "replace"

const unitExists = "org.freedesktop.systemd1.UnitExists"

type verb func(m manager, ctx context.Context, name, mode string, result chan<- string) (int, error)

// Start asks for a start, which merges with one that is queued, and waits at most wait for its end; with 0 it does not wait, and
// the answer is Queued. On a unit in auto-restart it lasts as long as RestartSec=: use Restart there.
func (c *Conn) Start(ctx context.Context, name string, wait time.Duration) (string, error) {
	return c.job(ctx, "start", manager.StartUnitContext, name, wait)
}

// Restart asks for a restart, which starts a unit that does not run and cuts RestartSec= short. At boot it merges with the
// queued start, so the unit starts once. It waits as Start does. What came before does not count for StartLimitBurst=: a unit
// that has failed at the gate too often is started all the same.
func (c *Conn) Restart(ctx context.Context, name string, wait time.Duration) (string, error) {
	c.resetFailed(ctx, name)

	return c.job(ctx, "restart", manager.RestartUnitContext, name, wait)
}

// resetFailed forgets earlier failures of a unit that is about to start: the start itself reports what is wrong.
func (c *Conn) resetFailed(ctx context.Context, name string) {
	_ = c.call(ctx, "resetting "+name, func(ctx context.Context, m manager) error {
		return m.ResetFailedUnitContext(ctx, name)
	})
}

// Stop asks for a stop and waits as Start does. Waiting for it is safe anywhere, also inside a unit that the stopped one is
// ordered after: stop jobs go first.
func (c *Conn) Stop(ctx context.Context, name string, wait time.Duration) (string, error) {
	return c.job(ctx, "stop", manager.StopUnitContext, name, wait)
}

// Act does what verb says with a unit: "start", "restart", "try-restart" (nothing if it does not run) or "reload" (a
// try-restart of one that cannot reload). It waits as Start does. A socket is restarted together with its services.
func (c *Conn) Act(ctx context.Context, verb, name string, wait time.Duration) (string, error) {
	if strings.HasSuffix(name, ".socket") {
		services, isActive, err := c.servicesOf(ctx, name)
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
		return c.job(ctx, verb, manager.ReloadOrTryRestartUnitContext, name, wait)
	case "try-restart":
		return c.job(ctx, verb, manager.TryRestartUnitContext, name, wait)
	}
	return c.Restart(ctx, name, wait)
}

// servicesOf returns the services of a socket, each with whether it runs, and whether the socket is active. systemd refuses to
// start a socket while its service runs. With Accept=yes there is none: each connection has a service of its own, which
// stays.
func (c *Conn) servicesOf(ctx context.Context, socket string) (services map[string]bool, isActive bool, err error) {
	properties, err := c.properties(ctx, socket)
	if err != nil {
		return nil, false, err
	}

	r := reader{properties: properties}
	accepts, active, names := read[bool](&r, "Accept"), read[string](&r, "ActiveState"), read[[]string](&r, "Triggers")
	if r.err != nil || accepts {
		return nil, false, r.err
	}

	services = map[string]bool{}
	for _, name := range names {
		u, err := c.Look(ctx, name)
		if err != nil {
			return nil, false, err
		}

		services[name] = u.Active != "inactive" && u.Active != "failed"
	}

	return services, active == "active", nil
}

// restartSocket stops a socket and its services, and starts it and those that ran. A unit of its own does it, so that it
// is finished also if this process is killed. Not by jobs of their own: a service that a connection starts between its stop
// and the start of the socket would make systemd refuse that one.
func (c *Conn) restartSocket(
	ctx context.Context, socket string, services map[string]bool, wait time.Duration,
) (string, error) {
	stop, start := []string{"/usr/bin/systemctl", "stop", socket}, []string{"/usr/bin/systemctl", "start", socket}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		stop = append(stop, name)
		if services[name] {
			start = append(start, name)
		}
	}

	c.resetFailed(ctx, socket)

	return c.runOnce(ctx, "prelet-socket", "prelet: restart "+socket+" with its services", wait, stop, start)
}

// CreateTmpfiles runs systemd-tmpfiles --create for files, as a unit of its own: prelet's may not write where they point. It waits
// as Start does.
func (c *Conn) CreateTmpfiles(ctx context.Context, files []string, wait time.Duration) (string, error) {
	return c.runOnce(ctx, "prelet-tmpfiles", "prelet: create what changed files of tmpfiles.d say", wait,
		append([]string{"/usr/bin/systemd-tmpfiles", "--create"}, files...))
}

// runOnce runs commands one after the other as a unit of its own.
func (c *Conn) runOnce(
	ctx context.Context, name, description string, wait time.Duration, commands ...[]string,
) (string, error) {
	type command struct { // (sasb)
		Path    string
		Args    []string
		Ignored bool // its failure
	}

	var run []command
	for _, args := range commands {
		run = append(run, command{Path: args[0], Args: args})
	}

	properties := []dbus.Property{
		dbus.PropDescription(description), dbus.PropType("oneshot"),
		{Name: "ExecStart", Value: godbus.MakeVariant(run)},
		{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
	}
	start := func(m manager, ctx context.Context, name, mode string, result chan<- string) (int, error) {
		id, err := m.StartTransientUnitContext(ctx, name, mode, properties, result)

		var refused godbus.Error
		if errors.As(err, &refused) && refused.Name == unitExists { // an earlier try was heard, and its answer lost
			return m.StartUnitContext(ctx, name, mode, result)
		}

		return id, err
	}

	return c.job(ctx, "start", start, fmt.Sprintf("%s-%d.service", name, time.Now().UnixNano()), wait)
}

// job asks for a job and waits for its end. An end that does not come in time, or that ctx cuts short, is Unanswered: the job
// may still be running. An error means that systemd refused the job or went away, or that ctx ended.
//
// Over a connection that is made anew nobody reports the end of the job: then the unit is asked until it has another job
// or none, and its state is the result.
func (c *Conn) job(ctx context.Context, what string, ask verb, name string, wait time.Duration) (string, error) {
	var (
		result chan string
		bus    manager
		id     int
	)

	err := c.call(ctx, "asking to "+what+" "+name, func(ctx context.Context, m manager) (err error) {
		if bus = m; wait > 0 {
			// Buffered: go-systemd delivers from its only dispatch goroutine, holding a lock; a full channel would stop it for ever.
			result = make(chan string, 1)
		}

		id, err = ask(m, ctx, name, jobMode, result)

		return err
	})
	switch {
	case err != nil:
		return Unanswered, err
	case wait <= 0:
		return Queued, nil
	}

	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	alive := time.NewTicker(c.heartbeat)
	defer alive.Stop()

	for {
		select {
		case r := <-result:
			return r, nil
		case <-deadline.C:
			return Unanswered, nil
		case <-ctx.Done():
			return Unanswered, context.Cause(ctx)
		case <-alive.C:
			if bus == c.current() && bus.Connected() {
				continue
			}

			if bus == c.current() && !c.reconnect(ctx, bus) {
				return Unanswered, fmt.Errorf("%w: the connection ended during the %s of %s", ErrGone, what, name)
			}

			u, err := c.Look(ctx, name)
			if err != nil {
				return Unanswered, err
			}

			switch {
			case u.Load == "not-found": // it ended, and was forgotten with its result
				return Unanswered, nil
			case u.Job != uint32(id):
				return resultOf(what, u), nil
			}
		}
	}
}

// resultOf returns how a job ended that left a unit in this state.
func resultOf(what string, u Unit) string {
	ended := u.Active == "inactive"

	switch {
	case what == "stop" && (ended || u.Active == "failed"),
		what != "stop" && (u.Active == "active" || u.Active == "reloading" || ended && u.Result == "success"):
		return Done
	}

	return Failed
}
