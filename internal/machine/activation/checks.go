package activation

import (
	"context"
	"slices"
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
	CheckDescription
	applies bool // the generation expects something of it
	needs   need
	run     func(context.Context, *look) effect
}

// CheckDescription is a check for people.
type CheckDescription struct {
	Name string // of its results
	What string // holds where it passes
}

// need is the condition of a look under which a check runs.
type need int

const (
	always   need = iota
	aNode         // look.node is not nil: the Node was read, and is this machine's
	afterAll      // all checks before it have passed, on which its answer depends; look.node may be nil
)

// processChecks are asked at each look, by judge, before those of verdictChecks.
var processChecks = []CheckDescription{
	{unitCheck, "its systemd unit is active, and does not end again and again"},
	{startedCheck, "the process started after its files were in place"},
	{healthzCheck, "its /healthz answers"},
	{steadyCheck, "all that has been true for the settling time"},
}

// verdictChecks returns the checks in the order of their results. prelet-verify, `prelet verify` and the looks between
// boots run them. The results are in the status, the metrics and the conditions of the Node; `prelet verify --help`
// lists them.
func (w *watcher) verdictChecks() []verdictCheck {
	s := w.spec
	type ask = func(context.Context, *look) effect
	row := func(name string, applies bool, needs need, run ask, what string) verdictCheck {
		return verdictCheck{CheckDescription{name, what}, applies, needs, run}
	}

	return []verdictCheck{
		row("flags", len(s.Flags) > 0, always, w.checkFlags, "the process runs with the planned flags"),
		row(FilesCheck, len(s.Files) > 0, always, w.checkFiles, "the files that it reads are as prelet wrote them"),
		row("kubeconfig", s.Kubeconfig != "", always, w.checkKubeconfig, "it has a kubeconfig of its Node"),
		row("node", s.Node != "", always, w.checkNode, "its Node exists"),
		row(MachineCheck, true, aNode, w.checkMachine, "that Node is of this machine"),
		row("labels", true, aNode, w.checkLabels, "the Node has the planned labels"),
		row("taints", true, aNode, w.checkTaints, "the Node has the planned taints"),
		row(ConfigCheck, s.Configz != nil, always, w.checkConfigz, "it runs with the planned configuration"),
		row(ServingCheck, s.Serving != "", afterAll, w.checkServing, "it has a certificate for its API"),
		row(podsCheck, true, afterAll, w.checkPods, "its log has no error that every pod would have"),
		row(OtherFilesCheck, true, afterAll, w.checkOtherFiles, "other managed files are as prelet wrote them"),
	}
}

// ListChecks returns all checks of a verdict, in the order of their results.
func ListChecks() []CheckDescription {
	all := slices.Clone(processChecks)
	for _, c := range (&watcher{}).verdictChecks() {
		all = append(all, c.CheckDescription)
	}

	return all
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
		if !c.applies || c.needs == aNode && l.node == nil || c.needs == afterAll && !hasSettled {
			continue
		}

		l.name = c.Name
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
