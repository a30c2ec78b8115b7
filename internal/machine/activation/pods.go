package activation

import (
	"context"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet/failure"
)

// A kubelet can pass all checks and still start no pod, because its cgroup driver is not the runtime's. Only its log
// shows that.

const podsCheck = "pods"

// maxLogAge is the highest age of a log line about pods that counts. A kubelet tries a failed pod again every ten to
// fifteen seconds (pkg/kubelet/pod_workers.go, backOffPeriod), so an older failure is over.
const maxLogAge = time.Minute

// checkPods reports whether pods can start, as far as this kubelet process has tried. Failures of a single pod are
// ignored, and there may be no pod yet. A log that cannot be read does not fail the check.
func (w *watcher) checkPods(ctx context.Context, l *look) effect {
	since := max(w.since, l.unit.Started, l.now-maxLogAge)
	lines, err := w.m.Node.Log(ctx, w.spec.Unit, since)
	if err != nil {
		w.addUnknown(podsCheck, "%v", err)
		return passes
	}

	found, failing := failure.RecogniseInPods(lines)
	if !failing {
		w.addOK(podsCheck)
		return passes
	}

	w.cause = w.spec.withItem(found)
	w.podsFailed = true
	w.addBad(podsCheck, "the kubelet is well, and can start no pod")

	return endsBad
}

// sharesPods reports whether a spec and that of the goal of a rollback have the same pod settings. Then the rollback
// would not help, and the plan is not the cause.
func (p Spec) sharesPods(goal Spec) bool {
	return p.Pods != "" && p.Pods == goal.Pods
}
