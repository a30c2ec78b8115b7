package activation

import (
	"context"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// effect is the effect of a check on the verdict.
type effect int

const (
	passes      effect = iota // or it only reports
	waits                     // the kubelet has not settled: asked again until the deadline, then bad, or unknown
	endsBad                   // it cannot go away: the verdict is bad now
	endsUnknown               // nothing that the kubelet does ends it: there is no verdict
)

// look is one look at a kubelet, with its time.
type look struct {
	name string // of the check that runs
	unit Unit
	now  time.Duration       // on the monotonic clock
	node *kubelet.NodeObject // of the check "node"; nil: it was not read, or is not this machine's
}

// verdictCheck is a check of a kubelet that has run for the settling time. It adds its result, and returns the effect
// on the verdict.
type verdictCheck struct {
	name    string // of its results
	applies bool   // the generation expects something of it
	needs   need
	run     func(context.Context, *look) effect
}

// need is the condition of a look under which a check runs.
type need int

const (
	always    need = iota
	aNode          // the Node was read, and is this machine's
	isSettled      // all checks before it have passed, on which its answer depends
)

// verdictChecks returns the checks in the order of their results. prelet-verify, `prelet verify` and the looks between
// boots run them. The results are in the status, the metrics and the conditions of the Node; the page for users is
// docs/operators/generations.md.
func (w *watcher) verdictChecks() []verdictCheck {
	s := w.spec

	return []verdictCheck{
		{"flags", len(s.Flags) > 0, always, w.checkFlags},
		{FilesCheck, len(s.Files) > 0, always, w.checkFiles},
		{"kubeconfig", s.Kubeconfig != "", always, w.checkKubeconfig},
		{"node", s.Node != "", always, w.checkNode},
		{MachineCheck, true, aNode, w.checkMachine},
		{"labels", true, aNode, w.checkLabels},
		{"taints", true, aNode, w.checkTaints},
		{ConfigCheck, s.Configz != nil, always, w.checkConfigz},
		{ServingCheck, s.Serving != "", isSettled, w.checkServing},
		{podsCheck, true, isSettled, w.checkPods},
		{OtherFilesCheck, true, isSettled, w.checkOtherFiles},
	}
}

// checkSettled runs the checks of a kubelet that has settled, not at each look.
func (w *watcher) checkSettled(ctx context.Context, u Unit, now time.Duration) (Verdict, string) {
	if w.lastProbe != 0 && now-w.lastProbe < probeInterval {
		w.checks = append(w.checks, w.lastChecks...)
		return Pending, ""
	}

	w.lastProbe = now

	before := len(w.checks)
	defer func() { w.lastChecks = w.checks[before:] }()

	l := &look{unit: u, now: now}
	hasSettled := true
	for _, c := range w.verdictChecks() {
		if !c.applies || c.needs == aNode && l.node == nil || c.needs == isSettled && !hasSettled {
			continue
		}

		l.name = c.name
		switch c.run(ctx, l) {
		case passes:
		case waits:
			hasSettled = false
		case endsBad:
			return Bad, w.reason
		case endsUnknown:
			return Unknown, w.reason
		}
	}
	if hasSettled {
		return Good, ""
	}

	// A failed check takes precedence over an unknown one.
	for _, check := range w.checks {
		if check.State == "failed" {
			w.reason = check.Name + ": " + check.Message
			w.unknown = false
		}
	}

	return Pending, ""
}

// checkFlags checks the command line of the process. Flags that it runs without do not come.
func (w *watcher) checkFlags(ctx context.Context, l *look) effect {
	switch {
	case w.checkProbe(l.name, w.m.Node.Flags(ctx, l.unit.MainPID, w.spec.Flags)):
		return passes
	case w.unknown:
		return waits
	}

	return endsBad
}

// checkFiles reports the files that the kubelet reads and that were edited since prelet wrote them. Files that a mount
// hides say nothing about the generation.
func (w *watcher) checkFiles(ctx context.Context, l *look) effect {
	differs := w.m.whyEdited(ctx, w.spec)
	if differs == "" {
		w.addOK(l.name)
		return passes
	}

	current, err := w.m.Store.Current()
	if err == nil {
		if why := w.m.WhyCovered(ctx, current); why != "" {
			w.addUnknown(l.name, "%s", why)
			return endsUnknown
		}
	}

	w.reportDrift(l.name, "%s; the next run restores it", differs)

	return passes
}

func (w *watcher) checkKubeconfig(ctx context.Context, l *look) effect {
	return passOrWait(w.checkProbe(l.name, w.m.Node.Kubeconfig(ctx, w.spec.Node)))
}

// checkNode reads the Node object for the checks that follow.
func (w *watcher) checkNode(ctx context.Context, l *look) effect {
	n, err := w.m.Node.NodeObject(ctx, w.spec.Node)
	switch {
	case err == nil && n.Deleted != "":
		w.reportDrift(l.name, "node %s is being deleted since %s, and is gone once it has no finalizers (kubectl get "+
			"node %[1]s -o jsonpath={.metadata.finalizers}); then systemctl restart %[3]s registers it again",
			n.Name, n.Deleted, w.spec.Unit)
	case !w.checkProbe(l.name, err):
		if w.m.Rival != "" {
			w.addUnknown(MachineCheck, "%s", w.m.Rival)
		}

		return waits
	}

	l.node = &n

	return passes
}

// checkOtherFiles reports the managed files that the kubelet does not read and that differ from their generation. They
// are drift: the next run restores them.
func (w *watcher) checkOtherFiles(_ context.Context, l *look) effect {
	if why := w.m.DescribeOthers(w.spec); why != "" {
		w.reportDrift(l.name, "%s", why)
	}

	return passes
}

func passOrWait(hasPassed bool) effect {
	if hasPassed {
		return passes
	}

	return waits
}
