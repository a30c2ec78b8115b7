package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/report"
)

// Standing is what `status -o json` prints: status.json, with what only this moment can tell.
type Standing struct {
	*report.Status
	Gate struct {
		Open       bool   `json:"open"`
		Generation int    `json:"generation"`
		Why        string `json:"why,omitempty"` // it is shut
	} `json:"gate"`
	Code int `json:"status_exit"` // of this command

	Interrupted string `json:"interrupted,omitempty"` // a commit whose writer is gone, and what to do

	Kept     string `json:"-"` // what the generations know of the one in place; "" for who may not read them
	ThisBoot bool   `json:"-"` // the last run was in this boot
}

// idleLooks are in a row: longer than systemd takes to start what was killed again (RestartSec=).
const idleLooks = 25

// Status returns how the node stands. With wait it returns when the run has ended and its generation has been judged, or when
// nobody is going to do that.
func (e *Env) Status(ctx context.Context, wait bool) (Standing, error) {
	h := e.Host(ctx)
	defer h.Units.Close()

	for idle := 0; ; {
		var out Standing
		s, err := report.Load(h.RunDir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Status, out.Code = &report.Status{FormatVersion: report.FormatVersion, Degraded: []report.Reason{}, Stages: []report.Stage{}}, 3
		case err != nil:
			return out, failure(fault.Internal, "%s", err)
		default:
			out.Status, out.Code = s, statusExit(s.InBoot(h.BootID))
		}
		out.ThisBoot = out.BootID == h.BootID
		gen, open, err := h.Gate().State()
		if err != nil {
			return out, failure(fault.Internal, "%s", err)
		}
		out.Gate.Open = open
		if open {
			out.Gate.Generation = gen
		} else {
			out.Gate.Why = h.Gate().Reason()
		}
		out.Kept, out.Interrupted = kept(h, out.Generation)
		if out.Interrupted != "" {
			out.Code = max(out.Code, 1)
		}
		if !wait || out.Code != 3 && out.Verdict != "pending" && out.Interrupted == "" {
			return out, nil
		}
		if idle++; !isIdle(ctx, h, out) {
			idle = 0
		} else if idle >= idleLooks {
			e.Say("nobody is going to judge it: no unit of prelet is at work, and the kubelet does not start")
			return out, nil
		}
		if h.Clock.Sleep(ctx, statusEvery) != nil {
			return out, nil // as it stands when somebody has waited long enough
		}
	}
}

// isIdle says whether nothing is under way that a wait could see the end of: the run has ended, or its writer is gone.
func isIdle(ctx context.Context, h *Host, s Standing) bool {
	if s.State == report.Running && s.Interrupted == "" {
		return false
	}
	for _, name := range []string{BootUnit, ApplyUnit, VerifyUnit} {
		u, err := h.Units.Look(ctx, name)
		ended := u.Active == "inactive" || u.Active == "failed" || u.Load == "not-found" || name == BootUnit && u.Active == "active" // for as long as the boot
		if err != nil || u.Job != 0 || !ended {
			return false
		}
	}
	if s.Interrupted != "" { // nobody stands between that and the kubelet
		return true
	}
	u, err := h.Units.Look(ctx, activate.DefaultUnit)
	return err == nil && u.Job == 0 && u.Load != "not-found" && (u.Active == "inactive" || u.Active == "failed")
}

// kept is the status of a generation, and what was interrupted, as far as this user may know.
func kept(h *Host, gen int) (status, interrupted string) {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return "", ""
	}
	defer store.Close()
	if j := store.Abandoned(); j != nil {
		interrupted = fmt.Sprintf("whoever put generation %d in place is gone, in the middle of it; prelet recover finishes it, if no unit of prelet does", j.Gen)
	}
	cur, err := store.Current()
	if err != nil || cur == nil || cur.Gen != gen {
		return "", interrupted
	}
	return string(cur.Status), interrupted
}

// statusExit is the exit status of `prelet status`, which has statuses of its own.
func statusExit(state string) int {
	switch state {
	case report.OK:
		return 0
	case report.Degraded:
		return 2
	case report.Running:
		return 3
	}
	return 1
}
