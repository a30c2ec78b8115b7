package app

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/apply"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/report"
)

// Verified is how the kubelet is on the generation in place.
type Verified struct {
	apply.Result
	Off bool // prelet=off: nothing was judged, and Result is empty
}

// Verify judges the kubelet where a verdict is awaited, and goes back to the last good generation if it is ill. Where none
// is awaited, it makes the same checks and changes nothing.
func (e *Env) Verify(ctx context.Context) (Verified, error) {
	h := e.Host(ctx)
	defer h.Units.Close()

	if h.Self == "" && !h.Off() && never(h) {
		return Verified{}, nil
	}

	store, err := h.LockNode(ctx)
	if err != nil {
		return Verified{}, err
	}
	defer store.Close()

	if h.Off() {
		return Verified{Off: true}, nil
	}

	j, err := store.Journal()
	if err == nil && j == nil {
		if gen, open, gateErr := h.Gate().State(); gateErr == nil && open {
			res, err := look(ctx, h, store, gen)
			return Verified{Result: res}, err
		}
	}

	res, err := e.judge(ctx, h, store)
	if err != nil {
		e.Say(err.Error())
	}
	if res.Code == "" && res.Outcome.HeldBack != "" && h.Self == "" {
		res.Code = fault.RolledBack // the unit has nothing to add to a failure that prelet.service shows
	}

	return Verified{Result: res}, nil
}

// judge comes to a verdict and reports it. Its error is of the report only.
func (e *Env) judge(ctx context.Context, h *Host, store *generation.Store) (apply.Result, error) {
	codeBefore, before := earlier(h)
	rep := e.Report(h, true)
	r := &apply.Run{Store: store, Machine: h.Machine(store, rep), Report: rep}
	res := r.Verify(ctx)

	code, summary := res.Code, res.Summary
	switch {
	case res.Outcome.HeldBack != "" && codeBefore != "":
		code, summary = codeBefore, before // that is why, and prelet.service has said so
	case res.Outcome.HeldBack != "":
		code = fault.RolledBack
	case code == "" && codeBefore.IsLasting():
		code, summary = codeBefore, before+"; "+summary
	}

	_, err := rep.Finish(code.Exit(), summary)

	return res, err
}

// never returns whether prelet has done nothing on this node yet, and keeps nothing back: there is no generation, no commit
// under way, and no run of this boot that shut the gate. It leaves no trace. It returns false where that cannot be read.
func never(h *Host) bool {
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err != nil {
		return false
	}
	defer store.Close()

	j, err := store.Journal()
	if err != nil || j != nil {
		return false
	}
	cur, err := store.Current()

	return err == nil && cur == nil && h.Gate().Reason() == ""
}

// look checks a kubelet that was judged already, and writes nothing.
func look(ctx context.Context, h *Host, store *generation.Store, gen int) (apply.Result, error) {
	var res apply.Result

	if cur, err := store.Current(); err == nil && cur != nil {
		gen = cur.Gen
	}
	res.Outcome.Generation = gen
	if h.Self != "" || gen == 0 {
		return res, nil
	}

	if err := store.Unlock(); err != nil { // the checks wait for a kubelet that has just started
		return res, explained(err)
	}
	checks, cause, err := h.Machine(store, nil).Examine(ctx, gen)
	if err != nil {
		checks = []activate.Check{{Name: "plan", State: "failed", Message: err.Error()}}
	}
	res.Outcome.Checks, res.Outcome.Cause = checks, cause

	for _, c := range checks {
		if c.State != "failed" {
			continue
		}
		res.Code = fault.RolledBack
		res.Summary = fmt.Sprintf("the kubelet is not well on generation %d: %s: %s", gen, c.Name, c.Message)
		if cause != nil {
			res.Summary += "; the kubelet: " + cause.String()
		}

		break
	}

	return res, nil
}

// earlier returns how the run before in this boot ended: the code stands for all with the exit status in status.json.
func earlier(h *Host) (code fault.Code, summary string) {
	s, err := report.Load(h.RunDir)
	if err != nil || s.BootID != h.BootID {
		return "", ""
	}

	return fault.CodeForExit(s.Exit), s.Summary
}
