package activate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
)

// What a plan says of its Node object, beside its name. A Node that this generation made has to be so. On an older one most labels
// and all taints are anybody's: that they differ is drift, and never makes a kubelet ill.

// madeSlack is how much later than the kubelet's start its Node may seem to have been made: the API server tells whole seconds.
const nodeAgeSlack = 2 * time.Second

// madeNode says whether this generation madeNode the Node: the node joined with it, and the Node is not older than its files.
func (p Plan) hasMadeNode(n kubelet.Node, since, now time.Duration) bool {
	return p.Joins && since > 0 && n.Age >= 0 && n.Age <= now-since+nodeAgeSlack
}

// checkNodeObject judges the labels and the taints of the Node.
func (w *watcher) checkNodeObject(n kubelet.Node, now time.Duration) (ok bool) {
	differ, kubectl := w.plan.labelDrift(n)

	ours := slices.ContainsFunc(w.plan.labelChanges(n), func(c kubelet.LabelChange) bool { return !c.Remove }) // cloud controllers set zones and types
	switch {
	case len(w.plan.Labels) == 0 && len(differ) == 0:
		ok = true
	case len(differ) == 0:
		w.addOK("labels")

		ok = true
	case ours && w.plan.hasMadeNode(n, w.since, now) && !w.plan.Reconcile:
		w.addBad("labels", "the kubelet has just made node %s with other labels: %s", n.Name, joinShort(differ))
	default:
		w.reportDrift("labels", "%s; %s", joinShort(differ), kubectl)

		ok = true
	}
	// Not judged even when the Node is new: controllers take the taints off that a node was to start with, within seconds.
	if differ, kubectl := w.plan.taintDrift(n); len(differ) > 0 {
		w.reportDrift("taints", "%s; a node cannot change its own taints: %s", joinShort(differ), kubectl)
	} else if len(w.plan.Taints) > 0 {
		w.addOK("taints")
	}

	return ok
}

func (w *watcher) reportDrift(name, format string, args ...any) {
	w.checks = append(w.checks, Check{Name: name, State: Drift, Message: fmt.Sprintf(format, args...)})
}

// mostTold bounds how many differences a message lists.
const maxListed = 5

func joinShort(list []string) string {
	if len(list) > maxListed {
		return strings.Join(list[:maxListed], ", ") + fmt.Sprintf(" and %d more", len(list)-maxListed)
	}

	return strings.Join(list, ", ")
}

// labelDrift is how the labels of a Node differ from the plan, and the command that mends it.
func (p Plan) labelDrift(n kubelet.Node) (differ []string, kubectl string) {
	var words []string

	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		have, there := n.Labels[key]
		switch want := p.Labels[key]; {
		case there && have == want:
			continue
		case there:
			differ = append(differ, fmt.Sprintf("%s is %q and not %q%s", key, have, want, p.sourceSuffix("label/"+key)))
		default:
			differ = append(differ, fmt.Sprintf("%s=%s is missing%s", key, p.Labels[key], p.sourceSuffix("label/"+key)))
		}

		words = append(words, key+"="+p.Labels[key])
	}

	for _, key := range slices.Sorted(maps.Keys(p.GoneLabels)) {
		if have, there := n.Labels[key]; there && slices.Contains(p.GoneLabels[key], have) {
			differ = append(differ, fmt.Sprintf("%s=%s is there, and no longer planned", key, have))
			words = append(words, key+"-")
		}
	}

	return differ, "kubectl label node " + n.Name + " --overwrite " + strings.Join(words, " ")
}

// taintDrift is how the taints of a Node differ from the plan, as far as plans made them, and the command that mends it.
func (p Plan) taintDrift(n kubelet.Node) (differ []string, kubectl string) {
	have := map[string]bool{}
	for _, t := range n.Taints {
		have[t.String()] = true
	}

	var words []string

	for _, t := range p.Taints {
		if !have[t] {
			key, _, _ := strings.Cut(strings.SplitN(t, ":", 2)[0], "=")
			differ = append(differ, "taint "+t+" is missing"+p.sourceSuffix("taint/"+key))
			words = append(words, t)
		}
	}

	for _, t := range p.GoneTaints {
		if have[t] {
			differ = append(differ, "taint "+t+" is there, and no longer planned")
			words = append(words, t+"-")
		}
	}

	return differ, "kubectl taint node " + n.Name + " --overwrite " + strings.Join(words, " ")
}

func (p Plan) sourceSuffix(item string) string {
	if at := p.Sources[item]; at != "" {
		return " (" + at + ")"
	}

	return ""
}

// labelChanges are what a node patches of its own labels. Those that the kubelet brings up to date itself are left to it; one
// that is no longer planned goes only if it has still the value that an earlier generation gave it.
func (p Plan) labelChanges(n kubelet.Node) (out []kubelet.LabelChange) {
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if have, there := n.Labels[key]; (!there || have != p.Labels[key]) && !kubelet.FollowsRestart(key) {
			out = append(out, kubelet.LabelChange{Key: key, Value: p.Labels[key]})
		}
	}

	for _, key := range slices.Sorted(maps.Keys(p.GoneLabels)) {
		if have, there := n.Labels[key]; there && slices.Contains(p.GoneLabels[key], have) {
			out = append(out, kubelet.LabelChange{Key: key, Value: have, Remove: true})
		}
	}

	return out
}

// Reconcile looks after the labels of a node on which there was nothing to do: somebody changed one, the site asks for it since
// now, or the cluster did not answer after the verdict. At boot, where nobody may be waited for, it does nothing. The lock is held
// before and after; nothing is written.
func (m *Machine) Reconcile(ctx context.Context, p Plan) ([]Check, error) {
	p = p.withDefaults()
	if !p.Reconcile {
		return nil, nil
	}

	if may, err := m.Units.MayWait(ctx, p.Unit); err != nil || !may {
		return nil, nil // systemd is not what this is about
	}

	var checks []Check

	err := m.runUnlocked(ctx, func() { checks = m.reconcile(ctx, p, nil) })

	return checks, err
}

// reconcile patches the node's labels, where the site wants that, as far as the cluster lets a node. The lock is free. It changes
// no verdict: what it could not do is drift. The check of the labels says what became of them.
func (m *Machine) reconcile(ctx context.Context, p Plan, checks []Check) []Check {
	if !p.Reconcile || p.Node == "" {
		return checks
	}

	n, err := m.Probe.Node(ctx, p.Node)
	if err != nil {
		return replaceCheck(checks, Check{"labels", "unknown", "not patched: " + err.Error()})
	}

	todo := p.labelChanges(n)
	if len(todo) == 0 {
		return checks
	}

	done, failed := m.patchLabels(ctx, p, n.Name, todo)
	if len(done) > 0 {
		m.note("labels", "ok", "patched node %s: %s", n.Name, strings.Join(done, " "))
	}

	message := ""
	if len(done) > 0 {
		message = "patched: " + strings.Join(done, " ")
	}

	if len(failed) == 0 {
		return replaceCheck(checks, Check{"labels", "ok", message})
	}

	m.note("labels", "notice", "not patched: %s", joinShort(failed))

	return replaceCheck(checks, Check{"labels", Drift, strings.TrimPrefix(message+"; not patched: "+joinShort(failed), "; ")})
}

// patchLabels makes all changes at once. When the cluster refuses that, each is tried by itself, so that one label that a node may not
// set does not keep the others back.
func (m *Machine) patchLabels(ctx context.Context, p Plan, node string, todo []kubelet.LabelChange) (done, failed []string) {
	err := m.Probe.PatchLabels(ctx, node, todo)

	alone := len(todo) == 1
	for _, c := range todo {
		one := err
		if isRefused(err) && !alone {
			one = m.Probe.PatchLabels(ctx, node, []kubelet.LabelChange{c})
		}

		switch {
		case one == nil:
			done = append(done, c.String())
		case isRefused(one):
			failed = append(failed, fmt.Sprintf("%s: the cluster does not let a node do that (%v)%s; kubectl label node %s --overwrite %s", c, one, p.sourceSuffix("label/"+c.Key), node, c))
		default:
			failed = append(failed, fmt.Sprintf("%s: %v", c, one))
		}
	}

	return done, failed
}

func isRefused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// withCheck puts a check in the place of the one of that name, or behind.
func replaceCheck(checks []Check, c Check) []Check {
	out := slices.Clone(checks)
	if i := slices.IndexFunc(out, func(x Check) bool { return x.Name == c.Name }); i >= 0 {
		out[i] = c
		return out
	}

	return append(out, c)
}
