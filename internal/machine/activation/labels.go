package activation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// The checks of the Node object besides its name. A Node that this generation created must have the planned labels. On
// an older Node other parties own most labels and all taints: a difference is drift, and never makes a kubelet
// unhealthy.

// nodeAgeSlack is how much later than the kubelet's start its Node may seem to be created: the API server rounds to
// whole seconds.
const nodeAgeSlack = 2 * time.Second

// hasMadeNode reports whether this generation created the Node: the node joined with it, and the Node is not older than
// its files.
func (p Spec) hasMadeNode(n kubelet.NodeObject, since, now time.Duration) bool {
	return p.Joins && since > 0 && n.Age >= 0 && n.Age <= now-since+nodeAgeSlack
}

// MachineCheck is the name of the check whether the Node is this machine's. Where it is not, nothing is judged: another
// generation would not help.
const MachineCheck = "machine"

func (c CheckResult) isOtherMachine() bool {
	return c.Name == MachineCheck && c.State != "ok"
}

// rivalWait covers two updates of a Node by each of two kubelets: every 10 s (nodeStatusUpdateFrequency), and later by
// the time of a request.
const rivalWait = 25 * time.Second

// checkMachine checks that the Node is this machine's. Two kubelets of one name overwrite the Node in turns, so its
// content, such as labels, is the work of both: a Node that was this machine's, or is new, and is another one's stays
// the other one's. An older Node may first be that of a machine which this one replaces.
func (w *watcher) checkMachine(_ context.Context, l *look) effect {
	why := w.m.Node.OtherMachine(*l.node)
	switch {
	case why != "" && (w.m.Rival != "" || w.ownSince != 0 || w.spec.hasMadeNode(*l.node, w.since, l.now)):
		w.rival = why
	case why == "" && w.ownSince == 0:
		w.ownSince = l.now
	}

	if w.awaitsRival(l.now) {
		why = w.m.Rival
	}
	if why := cmp.Or(w.rival, why); why != "" {
		w.addUnknown(MachineCheck, "%s", why)
		l.node = nil
	}

	switch {
	case w.rival != "":
		return endsUnknown
	case l.node == nil:
		return waits
	}
	w.addOK(MachineCheck)
	w.m.Rival = "" // it has not updated the Node for rivalWait

	return passes
}

// awaitsRival reports whether the Node, which was another machine's before, is this one's for less than rivalWait.
func (w *watcher) awaitsRival(now time.Duration) bool {
	return w.m.Rival != "" && w.rival == "" && w.ownSince != 0 && now-w.ownSince < rivalWait
}

func (w *watcher) checkLabels(_ context.Context, l *look) effect {
	n := *l.node
	differ, kubectl := w.spec.labelDrift(n)

	// Cloud controllers set zones and types on a new Node. labelPatch leaves these labels out.
	isPatch := func(c kubelet.LabelChange) bool { return !c.Remove }
	ours := slices.ContainsFunc(w.spec.labelPatch(n), isPatch)

	switch {
	case len(w.spec.Labels) == 0 && len(differ) == 0:
	case len(differ) == 0:
		w.addOK(l.name)
	case ours && w.spec.hasMadeNode(n, w.since, l.now) && !w.spec.Reconcile:
		w.addBad(l.name, "the kubelet has just made node %s with other labels: %s", n.Name, joinShort(differ))
		return waits
	default:
		w.reportDrift(l.name, "%s; %s", joinShort(differ), kubectl)
	}

	return passes
}

// checkTaints reports taints. They are not judged even on a new Node: controllers remove startup taints within seconds.
func (w *watcher) checkTaints(_ context.Context, l *look) effect {
	if drift := w.spec.describeTaintDrift(*l.node); drift != "" {
		w.reportDrift(l.name, "%s", drift)
	} else if len(w.spec.Taints) > 0 {
		w.addOK(l.name)
	}

	return passes
}

func (f *findings) reportDrift(name, format string, args ...any) {
	f.addQuiet(name, Drift, fmt.Sprintf(format, args...))
}

// addQuiet adds a check that is never part of a verdict: the reason of another check stays.
func (f *findings) addQuiet(name, state, message string) {
	f.checks = append(f.checks, CheckResult{name, state, message})
}

// maxListed is the highest number of differences in a message.
const maxListed = 5

func joinShort(list []string) string {
	if len(list) > maxListed {
		return strings.Join(list[:maxListed], ", ") + fmt.Sprintf(" and %d more", len(list)-maxListed)
	}

	return strings.Join(list, ", ")
}

// labelDrift returns how the labels of a Node differ from the plan, and the command that fixes them.
func (p Spec) labelDrift(n kubelet.NodeObject) (differ []string, kubectl string) {
	var words []string

	for _, c := range p.labelChanges(n) {
		have, exists := n.Labels[c.Key]
		at := p.sourceSuffix("label/" + c.Key)
		text := fmt.Sprintf("%s=%s is missing%s", c.Key, c.Value, at)
		switch {
		case c.Remove:
			text = fmt.Sprintf("%s=%s is there, and no longer planned", c.Key, have)
		case exists:
			text = fmt.Sprintf("%s is %q and not %q%s", c.Key, have, c.Value, at)
		}
		differ = append(differ, text)
		words = append(words, c.String())
	}

	return differ, "kubectl label node " + n.Name + " --overwrite " + strings.Join(words, " ")
}

// describeTaintDrift returns how the taints of a Node differ from the plan, why, and the command that fixes them; "" if
// they do not.
func (p Spec) describeTaintDrift(n kubelet.NodeObject) string {
	differ, fix := p.taintDrift(n)
	if len(differ) == 0 {
		return ""
	}

	return fmt.Sprintf("%s; %s: %s", joinShort(differ), p.whoPatchesTaints(n), taintCommand(n.Name, fix))
}

// whoPatchesTaints returns the program or person that changes the differing taints of a Node.
func (p Spec) whoPatchesTaints(n kubelet.NodeObject) string {
	if p.TaintCredential == "" {
		return "a node cannot change its own taints"
	}

	change, _ := p.taintChange(n)
	left, _ := p.taintDrift(change.After())
	switch {
	case change.OnlyNote:
		return "prelet changes only taints of its own, so by hand"
	case len(left) > 0:
		return "the next verdict or prelet run patches those of the site's taint stages, or by hand"
	}

	return "the next verdict or prelet run patches this, or by hand"
}

// taintChange returns the change of the taints that the site owns, or owned.
func (p Spec) taintChange(n kubelet.NodeObject) (change kubelet.TaintChange, ok bool) {
	planned := slices.Concat(p.Taints, p.StartupTaints)

	return n.ChangeTaints(p.OwnTaints, planned)
}

// taintDrift returns how the taints of a Node differ from the planned and formerly planned ones, and the change that
// fixes them. Startup taints are left out: their owners remove them, and may add them again.
func (p Spec) taintDrift(n kubelet.NodeObject) (differ []string, fix kubelet.TaintChange) {
	replaced := map[kubelet.Taint]bool{}

	for _, t := range p.Taints {
		have, exists := n.FindSame(t)
		if have == t || t.IsStartup() {
			continue
		}

		why := "missing"
		if exists {
			why = "missing: the Node has " + have.String()
			replaced[have] = true
		}
		differ = append(differ, fmt.Sprintf("taint %s is %s%s", t, why, p.sourceSuffix("taint/"+t.Key)))
		fix.Add = append(fix.Add, t)
	}

	for _, t := range p.GoneTaints {
		if slices.Contains(n.Taints, t) && !replaced[t] && !t.IsStartup() {
			differ = append(differ, fmt.Sprintf("taint %s is there, and no longer planned", t))
			fix.Remove = append(fix.Remove, t)
		}
	}

	return differ, fix
}

func taintCommand(node string, c kubelet.TaintChange) string {
	return "kubectl taint node " + node + " --overwrite " + c.String()
}

func (p Spec) sourceSuffix(item string) string {
	if at := p.Sources[item]; at != "" {
		return " (" + at + ")"
	}

	return ""
}

// labelChanges returns the changes from the labels of a Node to those of the plan. A label that was dropped from the
// plan is removed only if it still has the value of an earlier generation.
func (p Spec) labelChanges(n kubelet.NodeObject) (out []kubelet.LabelChange) {
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if have, exists := n.Labels[key]; !exists || have != p.Labels[key] {
			out = append(out, kubelet.LabelChange{Key: key, Value: p.Labels[key]})
		}
	}

	for _, key := range slices.Sorted(maps.Keys(p.GoneLabels)) {
		have, exists := n.Labels[key]
		if exists && slices.Contains(p.GoneLabels[key], have) {
			out = append(out, kubelet.LabelChange{
				Key:    key,
				Value:  have,
				Remove: true,
			})
		}
	}

	return out
}

// labelPatch returns the changes that a node makes itself: those of planned labels that the kubelet updates are left
// out.
func (p Spec) labelPatch(n kubelet.NodeObject) kubelet.LabelChanges {
	return slices.DeleteFunc(p.labelChanges(n), func(c kubelet.LabelChange) bool {
		return !c.Remove && kubelet.FollowsRestart(c.Key)
	})
}

// reconcile patches the labels and the taints of the Node as far as the site enables this and the cluster allows it.
// The lock is free. It changes no verdict: items that it could not patch are drift. The checks "labels" and "taints"
// have the result.
func (m *StateMachine) reconcile(ctx context.Context, p Spec, checks []CheckResult) []CheckResult {
	if p.Node == "" {
		return checks
	}

	if p.Reconcile {
		n, err := m.Node.NodeObject(ctx, p.Node)
		if err == nil {
			err = m.checkOwn(n)
		}
		if err != nil {
			checks = replaceCheck(checks, CheckResult{"labels", "unknown", "not patched: " + err.Error()})
		} else {
			done, err := m.patchLabels(ctx, p, n)
			checks = m.concludePatch(checks, "labels", done, "", err)
		}
	}
	if p.TaintCredential != "" {
		done, drift, err := m.patchTaints(ctx, p)
		checks = m.concludePatch(checks, "taints", done, drift, err)
	}

	return checks
}

// concludePatch notes the patched items, or why items were not patched, and replaces the check of a name by a report of
// them and of the remaining drift.
func (m *StateMachine) concludePatch(checks []CheckResult, name, done, drift string, err error) []CheckResult {
	c := CheckResult{Name: name, State: "ok"}
	var message []string
	if done != "" {
		m.note(name, "ok", "patched the Node: %s", done)
		message = append(message, "patched: "+done)
	}
	if err != nil {
		drift = "not patched: " + err.Error()
		m.note(name, "notice", "%s", drift)
	}
	if drift != "" {
		c.State = Drift
		message = append(message, drift)
	}
	if message == nil {
		return checks
	}
	c.Message = strings.Join(message, "; ")

	return replaceCheck(checks, c)
}

// maxTaintTries is how often the taints are patched if the Node changes meanwhile: its kubelet and controllers change
// it, too.
const maxTaintTries = 5

// patchTaints returns the changes that it has made ("" if there was nothing to change), and how the taints of the Node
// differ from the plan afterwards. Its errors contain the kubectl command, if there is one.
func (m *StateMachine) patchTaints(ctx context.Context, p Spec) (done, drift string, err error) {
	for range maxTaintTries {
		n, err := m.Node.NodeObject(ctx, p.Node)
		if err != nil {
			return "", "", p.addTaintCommand(err)
		}
		if err := m.checkOwn(n); err != nil {
			return "", "", err
		}

		change, ok := p.taintChange(n)
		if !ok {
			return "", p.describeTaintDrift(n), nil
		}

		err = m.Node.Patch(ctx, n.Name, p.TaintCredential, change)
		var changed interface{ Changed() bool }
		switch {
		case err == nil:
			return change.String(), p.describeTaintDrift(change.After()), nil
		case errors.As(err, &changed) && changed.Changed():
			continue
		case change.OnlyNote: // the taints that prelet owns are as planned; only their owner is not noted
			return "", p.describeTaintDrift(n), nil
		case IsRefused(err):
			const format = "the cluster does not let the client of credential %s do that (%w)"
			err = fmt.Errorf(format, p.TaintCredential, err)
		}

		return "", "", fmt.Errorf("%w; %s", err, taintCommand(n.Name, change))
	}

	return "", "", fmt.Errorf("node %s changed %d times while its taints were patched: prelet run tries again",
		p.Node, maxTaintTries)
}

// addTaintCommand adds the command for all taints of the site to the error of a Node that cannot be read.
func (p Spec) addTaintCommand(err error) error {
	if len(p.OwnTaints) == 0 {
		return fmt.Errorf("%w; the next verdict or prelet run looks again", err)
	}

	return fmt.Errorf("%w; the next verdict or prelet run patches them, or by hand: %s", err,
		taintCommand(p.Node, kubelet.TaintChange{Add: p.OwnTaints}))
}

// checkOwn returns why a Node must not be patched: it is another machine's, or was and may be again.
func (m *StateMachine) checkOwn(n kubelet.NodeObject) error {
	if why := cmp.Or(m.Node.OtherMachine(n), m.Rival); why != "" {
		return errors.New(why)
	}

	return nil
}

// patchLabels patches the labels that differ in one request, and returns the changes that it has made. If the cluster
// refuses that, it tries each change alone, so that one forbidden label does not block the others.
func (m *StateMachine) patchLabels(ctx context.Context, p Spec, n kubelet.NodeObject) (string, error) {
	todo := p.labelPatch(n)
	if len(todo) == 0 {
		return "", nil
	}

	var done, failed []string
	err := m.Node.Patch(ctx, n.Name, "", todo)
	for _, c := range todo {
		one := err
		if IsRefused(err) && len(todo) > 1 {
			one = m.Node.Patch(ctx, n.Name, "", kubelet.LabelChanges{c})
		}

		switch {
		case one == nil:
			done = append(done, c.String())
		case IsRefused(one):
			const format = "%s: the cluster does not let a node do that (%v)%s; kubectl label node %s --overwrite %s"
			source := p.sourceSuffix("label/" + c.Key)
			failed = append(failed, fmt.Sprintf(format, c, one, source, n.Name, c))
		default:
			failed = append(failed, fmt.Sprintf("%s: %v", c, one))
		}
	}
	if len(failed) > 0 {
		return strings.Join(done, " "), errors.New(joinShort(failed))
	}

	return strings.Join(done, " "), nil
}

// IsRefused reports whether the cluster refuses a patch, so that the same patch is refused again.
func IsRefused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// replaceCheck replaces the check with the same name, or appends the check.
func replaceCheck(checks []CheckResult, c CheckResult) []CheckResult {
	out := slices.Clone(checks)
	i := slices.IndexFunc(out, func(x CheckResult) bool {
		return x.Name == c.Name
	})
	if i >= 0 {
		out[i] = c
		return out
	}

	return append(out, c)
}
