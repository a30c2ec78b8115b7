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
	unit Unit
	now  time.Duration       // on the monotonic clock
	node *kubelet.NodeObject // of the check "node"; nil: it was not read, or is not this machine's
}

// verdictCheck is a check of a kubelet that has run for the settling time. It adds its result, and returns the effect on
// the verdict.
type verdictCheck struct {
	Name    string // of its results
	Applies func(w *watcher, l *look) bool
	IsLast  bool // asks for what depends on those before it: it runs when they have passed
	run     func(w *watcher, ctx context.Context, l *look) effect
}

// verdictChecks returns the checks in the order of their results. prelet-verify, `prelet verify` and the looks between
// boots run them. The results are in the status, the metrics and the conditions of the Node; the page for users is
// docs/operators/generations.md.
func verdictChecks() []verdictCheck {
	always := func(*watcher, *look) bool { return true }

	return []verdictCheck{
		{
			Name:    "flags",
			Applies: func(w *watcher, _ *look) bool { return len(w.spec.Flags) > 0 },
			run:     (*watcher).checkFlags,
		},
		{
			Name:    FilesCheck,
			Applies: func(w *watcher, _ *look) bool { return len(w.spec.Files) > 0 },
			run:     (*watcher).checkFiles,
		},
		{
			Name:    "kubeconfig",
			Applies: func(w *watcher, _ *look) bool { return w.spec.Kubeconfig != "" },
			run:     (*watcher).checkKubeconfig,
		},
		{
			Name:    "node",
			Applies: func(w *watcher, _ *look) bool { return w.spec.Node != "" },
			run:     (*watcher).checkNode,
		},
		{
			Name:    MachineCheck,
			Applies: func(w *watcher, l *look) bool { return l.node != nil && w.m.OtherMachine != nil },
			run:     (*watcher).checkMachine,
		},
		{
			Name:    LabelsCheck,
			Applies: func(_ *watcher, l *look) bool { return l.node != nil },
			run:     (*watcher).checkLabels,
		},
		{
			Name:    TaintsCheck,
			Applies: func(_ *watcher, l *look) bool { return l.node != nil },
			run:     (*watcher).checkTaints,
		},
		{
			Name:    ConfigCheck,
			Applies: func(w *watcher, _ *look) bool { return w.spec.Configz != nil },
			run:     (*watcher).checkConfigz,
		},
		{
			Name:    ServingCheck,
			Applies: func(w *watcher, _ *look) bool { return w.spec.Serving != "" },
			IsLast:  true,
			run:     (*watcher).checkServing,
		},
		{Name: podsCheck, Applies: always, IsLast: true, run: (*watcher).checkPods},
		{Name: OtherFilesCheck, Applies: always, IsLast: true, run: (*watcher).checkOtherFiles},
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
	for _, c := range verdictChecks() {
		if !c.Applies(w, l) || c.IsLast && !hasSettled {
			continue
		}

		switch c.run(w, ctx, l) {
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
	case w.checkProbe("flags", w.m.Probe.Flags(ctx, l.unit.MainPID, w.spec.Flags)):
		return passes
	case w.unknown:
		return waits
	}

	return endsBad
}

// checkFiles reports the files that the kubelet reads and that were edited since prelet wrote them. Files that a mount
// hides say nothing about the generation.
func (w *watcher) checkFiles(ctx context.Context, _ *look) effect {
	differs := w.m.whyEdited(ctx, w.spec)
	if differs == "" {
		w.addOK(FilesCheck)
		return passes
	}

	current, err := w.m.Store.Current()
	if err == nil {
		if why := w.m.WhyCovered(ctx, current); why != "" {
			w.addUnknown(FilesCheck, "%s", why)
			return endsUnknown
		}
	}

	w.reportDrift(FilesCheck, "%s; the next run restores it", differs)

	return passes
}

func (w *watcher) checkKubeconfig(ctx context.Context, _ *look) effect {
	return passOrWait(w.checkProbe("kubeconfig", w.m.Probe.Kubeconfig(ctx, w.spec.Node)))
}

// checkNode reads the Node object for the checks that follow.
func (w *watcher) checkNode(ctx context.Context, l *look) effect {
	n, err := w.m.Probe.Node(ctx, w.spec.Node)
	switch {
	case err == nil && n.Deleted != "":
		w.reportDrift("node", "node %s is being deleted since %s, and is gone once it has no finalizers (kubectl get "+
			"node %[1]s -o jsonpath={.metadata.finalizers}); then systemctl restart %[3]s registers it again",
			n.Name, n.Deleted, w.spec.Unit)
	case !w.checkProbe("node", err):
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
func (w *watcher) checkOtherFiles(context.Context, *look) effect {
	if why := w.m.DescribeOthers(w.spec); why != "" {
		w.reportDrift(OtherFilesCheck, "%s", why)
	}

	return passes
}

func passOrWait(hasPassed bool) effect {
	if hasPassed {
		return passes
	}

	return waits
}
