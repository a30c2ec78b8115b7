package run

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/run/request"
	"github.com/prelet/prelet/internal/model/secret"
)

// A command by hand that changes a node runs in prelet-apply.service: it has the credentials and the drop-ins of the
// unit, it is started again when it is killed, and it does not end with a session.
const (
	followTime   = 20 * time.Minute // two watches of the longest sensible timeout
	followRuns   = 4
	requestEvery = 500 * time.Millisecond
	// MaxOpenWait is how long prelet.service may wait before it tries again while the gate is open: a kubelet that
	// crashes meanwhile starts only when prelet.service has ended.
	MaxOpenWait = 10 * time.Second
)

// byOthers is the result of a command that another process ran for this one, or this one for others. All its output is
// printed.
func byOthers(code fault.Code) *commit.Result { return &commit.Result{Code: code, IsPrinted: true} }

// delegate hands a command to prelet-apply.service and follows it, or serves the requests of others where this is that
// unit. Its result is nil when the command is to run in this process: inside prelet's own units, without systemd, and
// with --config, because the unit cannot read a folder below /home or /tmp.
func delegate(
	ctx context.Context, e *machine.Env, h *machine.Host, config, args []string,
) (*commit.Result, error) {
	switch {
	case e.Serve == nil || !h.Systemd:
		return nil, nil
	case h.Self == machine.ApplyUnit:
		return serveAll(e, h), nil
	case h.Self != "" || len(config) > 0:
		return nil, nil
	}

	u, err := h.Units.Look(ctx, machine.ApplyUnit)
	if err != nil {
		return nil, fault.Systemd.Errorf("%s", err)
	}
	if u.Load != "loaded" {
		e.Say(machine.ApplyUnit + " is not installed, so this works in this process: do not end it")
		return nil, nil
	}

	return follow(ctx, e, h, args)
}

// follow offers a request, starts the unit and returns how it ended.
func follow(
	ctx context.Context, e *machine.Env, h *machine.Host, args []string,
) (*commit.Result, error) {
	if err := h.CreateRunDir(); err != nil {
		return nil, err
	}
	offer, err := request.Make(h.RunDir, args, e.Stdout, e.Stderr)
	if err != nil {
		return nil, fault.CannotWrite.Errorf("a socket in %s: %s; prelet changes a node as root only",
			h.RunDir, err)
	}
	defer offer.Close()

	interrupted := fault.Interrupted.Errorf(
		"%s continues; `prelet status --wait` reports how it ends", machine.ApplyUnit)
	result := ""
	// Systemd merges our start with a running one, which may have begun before the request was offered.
	for range followRuns {
		result, err = h.Units.Start(ctx, machine.ApplyUnit, followTime)
		if err != nil {
			if ctx.Err() != nil {
				return nil, interrupted
			}
			return nil, fault.Systemd.Errorf("%s", err)
		}
		select {
		case <-offer.Taken:
			select {
			case r := <-offer.Ended:
				if r.Err != nil {
					return nil, r.Err
				}
				return byOthers(r.Code), nil
			case <-ctx.Done():
				return nil, interrupted
			}
		default:
		}
		if result == "canceled" { // by a stop, which another start would cancel in its turn
			return nil, fault.Interrupted.Errorf(
				"%s was stopped; `prelet status --wait` reports how it ends", machine.ApplyUnit)
		}
	}
	return nil, fault.Systemd.Errorf(
		"%s ended without an answer (its job: %s); see journalctl -u %s",
		machine.ApplyUnit,
		result,
		machine.ApplyUnit,
	)
}

// serveAll serves all requests. It returns nil without one.
func serveAll(e *machine.Env, h *machine.Host) *commit.Result {
	code, isServed := request.ServeAll(h.RunDir, e.Serve, e.Say)
	if !isServed {
		return nil
	}

	return byOthers(code)
}

// waitToRetry waits before a run that systemd repeats by itself, longer each time. A run that a person asked for begins
// at once, and a request that comes during the wait (asked) ends it.
func waitToRetry(ctx context.Context, h *machine.Host) (asked bool, err error) {
	if h.Self != machine.BootUnit && h.Self != machine.ApplyUnit {
		return false, nil
	}
	n := 1 // where systemd does not answer
	if u, err := h.Units.Look(ctx, h.Self); err == nil {
		n = int(u.Restarts)
	}
	if n == 0 || !commit.NeedsDelay(readLastRun(h).Code, n) {
		return false, nil
	}
	wait := commit.RetryDelay(n, h.Jitter())
	if _, open, err := h.Gate().State(); err == nil && open {
		wait = min(wait, MaxOpenWait)
	}
	if _, rest := commit.FindHolds(h.StateDir(), h.BootID, h.Clock.Monotonic()); rest > 0 {
		wait = min(wait, rest)
	}
	_ = h.Notify.Extend(wait + 4*machine.KeepAlive)
	_ = h.Notify.Status(fmt.Sprintf("%s; waiting %s before try %d (systemctl restart %s: now)",
		lastSummary(h), wait.Round(time.Second), n+1, h.Self))

	return waitForRequest(ctx, h, h.Clock.Monotonic()+wait)
}

// waitForRequest waits until a command has asked for a run, or until a time of the monotonic clock.
func waitForRequest(ctx context.Context, h *machine.Host, end time.Duration) (asked bool, err error) {
	for h.Clock.Monotonic() < end {
		if len(request.List(h.RunDir)) > 0 {
			return true, nil
		}
		err := h.Clock.Sleep(ctx, min(requestEvery, end-h.Clock.Monotonic()))
		if err != nil {
			return false, fault.Systemd.Errorf("stopped while waiting to try again: %s", err)
		}
	}
	return false, nil
}

// lastSummary returns how the last run ended, in at most 120 characters.
func lastSummary(h *machine.Host) string {
	s, err := h.LoadReport()
	if err != nil || s.Summary == "" {
		return "the run before failed"
	}
	return secret.Cut(s.Summary, 120)
}
