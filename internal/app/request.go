package app

import (
	"context"
	"time"

	"github.com/prelet/prelet/internal/app/request"
	"github.com/prelet/prelet/internal/fault"
)

// A command by hand that changes a node runs in prelet-apply.service: it has the credentials and the drop-ins of the
// unit, it is started again when it is killed, and it does not end with a session.
const (
	followTime = 20 * time.Minute // two watches of the longest sensible timeout
	followRuns = 4
)

// Ended is how a command ended that another process ran for this one, or this one for others. All output is printed.
type Ended struct {
	Code fault.Code // "" where it succeeded
}

// Error implements error.
func (e Ended) Error() string { return string(e.Code) }

// delegate hands a command to prelet-apply.service and follows it, or serves the requests of others where this is that
// unit. It returns nil when the command is to run in this process: inside prelet's own units, without systemd, and with
// --config, because the unit cannot read a folder below /home or /tmp.
func (e *Env) delegate(ctx context.Context, h *Host, config, args []string) error {
	switch {
	case e.Serve == nil || !h.Systemd:
		return nil
	case h.Self == ApplyUnit:
		return e.serveAll(h)
	case h.Self != "" || len(config) > 0:
		return nil
	}
	u, err := h.Units.Look(ctx, ApplyUnit)
	if err != nil {
		return failure(fault.Systemd, "%s", err)
	}
	if u.Load != "loaded" {
		e.Say(ApplyUnit + " is not installed, so this works in this process: do not end it")
		return nil
	}
	return e.follow(ctx, h, args)
}

// follow offers a request, starts the unit and returns how it ended.
func (e *Env) follow(ctx context.Context, h *Host, args []string) error {
	if err := h.createRunDir(); err != nil {
		return err
	}
	offer, err := request.Make(h.RunDir, args, e.Stdout, e.Stderr)
	if err != nil {
		return failure(fault.CannotWrite, "a socket in %s: %s; prelet changes a node as root only",
			h.RunDir, err)
	}
	defer offer.Close()

	interrupted := failure(fault.Interrupted, "%s continues; `prelet status --wait` reports how it ends", ApplyUnit)
	result := ""
	// Systemd merges our start with a running one, which may have begun before the request was offered.
	for range followRuns {
		result, err = h.Units.Start(ctx, ApplyUnit, followTime)
		if err != nil {
			if ctx.Err() != nil {
				return interrupted
			}
			return failure(fault.Systemd, "%s", err)
		}
		select {
		case <-offer.Taken:
			select {
			case r := <-offer.Ended:
				if r.Err != nil {
					return r.Err
				}
				return Ended{r.Code}
			case <-ctx.Done():
				return interrupted
			}
		default:
		}
		if result == "canceled" { // by a stop, which another start would cancel in its turn
			return failure(fault.Interrupted,
				"%s was stopped; `prelet status --wait` reports how it ends", ApplyUnit)
		}
	}
	return failure(
		fault.Systemd,
		"%s ended without an answer (its job: %s); see journalctl -u %s",
		ApplyUnit,
		result,
		ApplyUnit,
	)
}

// serveAll serves all requests. It returns nil without one.
func (e *Env) serveAll(h *Host) error {
	code, isServed := request.ServeAll(h.RunDir, e.Serve, e.Say)
	if !isServed {
		return nil
	}

	return Ended{code}
}
