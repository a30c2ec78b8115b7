package activate

import (
	"context"
	"time"

	"github.com/prelet/prelet/internal/kubelet/failure"
)

// A kubelet is well by all that it is asked, and can start no pod: its cgroup driver is not the runtime's. Only its log has that.

// fresh is how old what the log says of pods may be. A kubelet tries a pod that it could not start again every ten to fifteen
// seconds (pkg/kubelet/pod_workers.go, backOffPeriod), so that what it has not said for so long is over.
const maxLogAge = time.Minute

// checkPods says whether checkPods can start, as far as this process of the kubelet has tried: what one pod alone fails of is not looked
// for, and none may be there yet. That its log cannot be read is held against nobody.
func (w *watcher) checkPods(ctx context.Context, u Unit, now time.Duration) (ok bool) {
	lines, err := w.m.readLog(ctx, w.plan, max(w.since, u.Started, now-maxLogAge))
	if err != nil {
		w.addUnknown("pods", "%v", err)
		return true
	}

	found, failing := failure.OfPods(lines)
	if !failing {
		w.addOK("pods")
		return true
	}

	w.cause, w.podsFailed = w.plan.withItem(found), true
	w.addBad("pods", "the kubelet is well, and can start no pod")

	return false
}

// sharesPods says whether a plan has what pods cannot start for from the one that would be gone back to: then that is no better,
// and the plan did not do it.
func (p Plan) sharesPods(goal Plan) bool { return p.Pods != "" && p.Pods == goal.Pods }
