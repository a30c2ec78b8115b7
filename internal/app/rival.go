package app

import (
	"context"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// rivalPatience is how long a run waits for the look at its Node after the plan: a boot does not wait for a cluster.
const rivalPatience = 250 * time.Millisecond

// beginRivalLook looks in parallel with the plan whether the Node of a joined node is another machine's, by which the
// run is degraded. At a boot only the other machine updates the Node. wait returns when the look has ended, or after
// rivalPatience; it may be called more than once.
func (h *Host) beginRivalLook(ctx context.Context, r *commit.Run) (wait func()) {
	cur, err := r.Store.Current()
	isUsed := err == nil && cur != nil && !r.Off && h.hasKubeconfig() && r.Machine.Foreign(cur.Gen) == ""
	if !isUsed {
		return func() {}
	}
	plan, err := r.Machine.PlanOf(cur.Gen)
	if err != nil || plan.Node == "" {
		return func() {}
	}

	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	found := make(chan string, 1)
	go func() {
		n, err := h.Probe.Node(ctx, plan.Node)
		if err != nil || !n.Ready { // of a machine that no longer runs
			found <- ""
			return
		}
		found <- describeOtherMachine(n, machineid.Of(h.Root))
	}()

	return sync.OnceFunc(func() {
		defer cancel()
		select {
		case why := <-found:
			if why != "" {
				r.Machine.Rival = why
				r.Report.ClearDegraded(fault.OtherMachine)
				r.Report.Degrade(fault.OtherMachine, why)
			}
		case <-time.After(rivalPatience):
		}
	})
}
