package activate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
)

// Probe answers what can be seen of a running kubelet, beside what systemd says. Each method returns nil when it is so, an
// error that says what is wrong when it is not, and one with a method Unknown() bool that returns true when it cannot be told
// (the apiserver does not answer): an unknown is never held against a generation.
type Probe interface {
	// Healthz asks the kubelet on loopback. Connection refused is not well, not unknown.
	Healthz(ctx context.Context, url string) error
	// Kubeconfig: the file is there and can be used. While it is missing and the apiserver cannot be reached, unknown.
	Kubeconfig(ctx context.Context, path string) error
	// Flags: the command line of this process has them all.
	Flags(ctx context.Context, pid uint32, flags []string) error
	// Files: each path has content with this sha256.
	Files(ctx context.Context, sha256 map[string]string) error
	// Node: the Node object exists, and this is it.
	Node(ctx context.Context, name string) (kubelet.Node, error)
	// PatchLabels changes labels of the Node with the node's own identity, all or none. An error with a method Refused() bool that
	// returns true is the cluster's no.
	PatchLabels(ctx context.Context, name string, changes []kubelet.LabelChange) error
	// Configz tells in which fields the configuration that the kubelet runs with differs from the planned one.
	Configz(ctx context.Context, c kubelet.Configz) (differ []string, err error)
	// Log is what the unit's processes have written since then, oldest line first.
	Log(ctx context.Context, unit string, since time.Time) ([]string, error)
}

// Check is one thing that was looked at.
type Check struct {
	Name    string `json:"name"`  // unit, started, steady, healthz, flags, files, kubeconfig, node, labels, taints, configz, pods
	State   string `json:"state"` // ok, failed, unknown, drift
	Message string `json:"message,omitempty"`
}

// Drift is the state of a check that found a difference which is nobody's fault: somebody changed the Node, or it is older.
const Drift = "drift"

const (
	lookInterval  = 100 * time.Millisecond
	probeInterval = time.Second // what costs more than a look: the apiserver, hashing files
	// crashLoop is the number of deaths within one watch after which waiting longer tells nothing new.
	crashLoopDeaths = 3
	// silence is how long systemd may not answer before the watch gives up: a reload, or systemd's own re-execution, takes less.
	maxSilence = 10 * time.Second
)

// finding is how a watch ended.
type finding struct {
	verdict  Verdict
	reason   string
	checks   []Check
	cause    *Cause
	onlyPods bool // nothing else is wrong than that pods cannot start
}

// watch looks at the unit until it is settled, or until deadline on the monotonic clock, but once at least. result is how the
// job ended that brought it up, if it was waited for. since is when the files were in place; a process that started before
// cannot have read them. full says that the deadline leaves the verdict its own time, and not only what was left of the activation's.
func (m *Machine) watch(ctx context.Context, p Plan, since, deadline time.Duration, result string, full bool) (finding, error) {
	m.note("verify", "started", "%s", p.Unit)
	m.extendTimeout(max(0, deadline-m.Clock.Monotonic()))
	w := watcher{m: m, plan: p, since: since, result: result, fullTimeout: full}

	f, err := w.run(ctx, deadline)
	if err == nil && f.verdict == Bad {
		if w.cause == nil {
			w.cause = m.findCause(ctx, p, since)
		}

		if f.cause = w.cause; f.cause != nil {
			f.reason += "; the kubelet: " + f.cause.String()
		}
	}

	switch {
	case err != nil:
		m.note("verify", "failed", "%v", err)
	case f.verdict == Good:
		m.note("verify", "ok", "%s is healthy", p.Unit)
	case f.verdict == Bad:
		m.note("verify", "failed", "%s is ill: %s", p.Unit, f.reason)
	default:
		m.note("verify", "notice", "%s: no verdict: %s", p.Unit, f.reason)
	}

	return f, err
}

type watcher struct {
	m           *Machine
	plan        Plan
	since       time.Duration
	result      string
	fullTimeout bool

	hasLooked   bool
	pid         uint32        // of the last look
	restarts    uint32        // NRestarts at the first look, or after somebody restarted it
	deaths      uint32        // deaths that were seen
	steadySince time.Duration // since when the same process has answered well; 0: it does not
	lastProbe   time.Duration // when askAll ran last
	lastChecks  []Check       // and what it was told

	cause       *Cause        // what its log said when it was seen dead, or when pods could not start
	lastLogRead time.Duration // when the log was read last
	podsFailed  bool          // that is all that is wrong

	checks  []Check
	reason  string // the last thing that was not so
	unknown bool   // that could not be told, as opposed to is wrong
}

func (w *watcher) run(ctx context.Context, deadline time.Duration) (finding, error) {
	clock := w.m.Clock
	lastAnswer := clock.Monotonic()

	for {
		if ctx.Err() != nil {
			return w.finish(Unknown, "prelet was told to stop: "+context.Cause(ctx).Error()), nil
		}

		u, err := w.m.Units.Look(ctx, w.plan.Unit)

		now := clock.Monotonic()
		if err != nil {
			if now-lastAnswer >= maxSilence {
				return finding{}, fmt.Errorf("watching %s: %w", w.plan.Unit, err)
			}
		} else {
			lastAnswer = now
			if verdict, why := w.judge(ctx, u, now); verdict != Pending {
				return w.finish(verdict, why), nil
			}
		}

		if now = clock.Monotonic(); now >= deadline {
			if w.unknown {
				return w.finish(Unknown, w.reason), nil
			}

			if !w.fullTimeout {
				return w.finish(Unknown, fmt.Sprintf("the activation's time (%s) was up before a verdict; so far: %s", w.plan.Bound, w.reason)), nil
			}

			return w.finish(Bad, fmt.Sprintf("not healthy after %s: %s", w.plan.Timeout, w.reason)), nil
		}
		// A ctx that ends is seen above; an error here says nothing else.
		_ = clock.Sleep(ctx, min(lookInterval, deadline-now))
	}
}

func (w *watcher) finish(verdict Verdict, why string) finding {
	return finding{verdict: verdict, reason: why, checks: w.checks, onlyPods: w.podsFailed}
}

// look judges one look at the unit. Pending: go on.
func (w *watcher) judge(ctx context.Context, u Unit, now time.Duration) (Verdict, string) {
	w.countDeaths(u)

	w.checks = nil
	if deaths := max(w.deaths, u.Restarts-w.restarts); deaths >= crashLoopDeaths {
		return Bad, w.addBad("unit", "crash loop: it died %d times (%s/%s, result %s)", deaths, u.Active, u.Sub, u.Result)
	}

	if w.cannotRecover(ctx, u, now) {
		return Bad, w.addBad("unit", "it ended (%s/%s, result %s), and will each time", u.Active, u.Sub, u.Result)
	}

	switch {
	case isStopped(u) && w.result == jobDependency:
		return Bad, w.addBad("unit", "it was not started, because a unit that it requires failed")
	case isStopped(u):
		return Unknown, w.addUnknown("unit", "it is stopped, not failed: nobody has started it, or somebody stopped it")
	case hasGivenUp(u):
		return Bad, w.addBad("unit", "it failed (result %s), and systemd does not start it again", u.Result)
	case u.Active != "active":
		w.steadySince = 0
		w.addBad("unit", "it is %s/%s (last result %s, %d automatic restarts)", u.Active, u.Sub, u.Result, u.Restarts)

		return Pending, ""
	}

	w.addOK("unit")

	if u.Started < w.since {
		w.steadySince = 0
		w.addBad("started", "process %d started before the files were in place", u.MainPID)

		return Pending, ""
	}

	w.addOK("started")

	if w.plan.Healthz != "" {
		if !w.checkProbe("healthz", w.m.Probe.Healthz(ctx, w.plan.Healthz)) {
			w.steadySince = 0
			return Pending, ""
		}
	}

	if w.steadySince == 0 {
		w.steadySince = now
	}

	if now-w.steadySince < w.plan.Settle {
		w.addBad("steady", "well for %s of %s so far", now-w.steadySince, w.plan.Settle)
		return Pending, ""
	}

	w.addOK("steady")

	return w.checkSettled(ctx, u, now)
}

// endsAlways says whether a kubelet that was seen dead says itself that it always endsAlways so: then nobody waits for the loop. A unit that
// failed without a process (the gate was shut) says nothing.
func (w *watcher) cannotRecover(ctx context.Context, u Unit, now time.Duration) bool {
	dead := u.Started >= w.since && u.Result != "resources" && (isWaitingToRestart(u) || hasGivenUp(u))
	if !dead || w.lastLogRead != 0 && now-w.lastLogRead < probeInterval {
		return false
	}

	w.lastLogRead = now
	w.cause = w.m.findCause(ctx, w.plan, w.since)

	return w.cause != nil && w.cause.final
}

// countFalls counts the deaths of the main process that were seen between two looks. Those that were too quick to be seen are
// in NRestarts. A process that somebody replaced, or stopped, did not die.
func (w *watcher) countDeaths(u Unit) {
	switch {
	case !w.hasLooked:
		w.hasLooked, w.restarts = true, u.Restarts
	case u.Restarts < w.restarts: // a manual start or restart sets NRestarts to 0
		w.restarts, w.steadySince = u.Restarts, 0
	case w.pid != 0 && u.MainPID != w.pid:
		w.steadySince = 0
		if u.Active == "failed" || isWaitingToRestart(u) || u.Restarts > w.restarts+w.deaths {
			w.deaths++
		}
	}

	w.pid = u.MainPID
}

// askAll asks what only a settled kubelet can answer. What cannot mend itself is bad at once.
func (w *watcher) checkSettled(ctx context.Context, u Unit, now time.Duration) (Verdict, string) {
	if w.lastProbe != 0 && now-w.lastProbe < probeInterval {
		w.checks = append(w.checks, w.lastChecks...)
		return Pending, ""
	}

	w.lastProbe = now

	before := len(w.checks)
	defer func() { w.lastChecks = w.checks[before:] }()

	probe := w.m.Probe
	all := true

	if len(w.plan.Flags) > 0 && !w.checkProbe("flags", probe.Flags(ctx, u.MainPID, w.plan.Flags)) {
		if !w.unknown {
			return Bad, w.reason
		}

		all = false
	}

	if len(w.plan.Files) > 0 && !w.checkProbe("files", probe.Files(ctx, w.plan.Files)) {
		if !w.unknown {
			return Bad, w.reason
		}

		all = false
	}

	if w.plan.Kubeconfig != "" {
		all = w.checkProbe("kubeconfig", probe.Kubeconfig(ctx, w.plan.Kubeconfig)) && all
	}

	if w.plan.Node != "" {
		n, err := probe.Node(ctx, w.plan.Node)
		if all = w.checkProbe("node", err) && all; err == nil {
			all = w.checkNodeObject(n, now) && all
		}
	}

	if w.plan.Configz != nil && !w.checkConfigz(ctx) {
		return Bad, w.reason
	}

	if all && !w.checkPods(ctx, u, now) {
		return Bad, w.reason
	}

	if all {
		return Good, ""
	}
	// Some answers are wrong and some unknown: what is wrong counts.
	for _, check := range w.checks {
		if check.State == "failed" {
			w.reason, w.unknown = check.Name+": "+check.Message, false
		}
	}

	return Pending, ""
}

func (w *watcher) checkProbe(name string, err error) bool {
	if err == nil {
		w.addOK(name)
		return true
	}

	var unknown interface{ Unknown() bool }
	if errors.As(err, &unknown) && unknown.Unknown() {
		w.addUnknown(name, "%v", err)
	} else {
		w.addBad(name, "%v", err)
	}

	return false
}

func (w *watcher) addOK(name string) { w.checks = append(w.checks, Check{Name: name, State: "ok"}) }

func (w *watcher) addBad(name, format string, args ...any) string {
	return w.addCheck(name, "failed", false, format, args)
}

func (w *watcher) addUnknown(name, format string, args ...any) string {
	return w.addCheck(name, "unknown", true, format, args)
}

func (w *watcher) addCheck(name, state string, dunno bool, format string, args []any) string {
	message := fmt.Sprintf(format, args...)
	w.checks = append(w.checks, Check{Name: name, State: state, Message: message})
	w.reason, w.unknown = name+": "+message, dunno

	return w.reason
}
