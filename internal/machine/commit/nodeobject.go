package commit

import (
	"slices"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
)

// addExpected adds the parts of a plan that a verdict compares besides its files and flags: the configuration, the
// certificate of the kubelet's API, and the Node object, which are its labels and taints, and those of earlier
// generations of this machine that the plan has dropped. It looks at all generations since the last good one, because
// their labels may have reached the cluster. It also adds the sources of items, for messages.
func addExpected(o ProposalInput, spec *activation.Spec) {
	spec.Joins = !o.Plan.Kubelet.Joined && slices.ContainsFunc(o.Plan.Node.Files, isBootstrapKubeconfig)

	spec.Sources = collectSources(o.Plan)
	if x := o.Plan.Node.Activation; x != nil && x.Configz != "" {
		spec.Configz = buildConfigz(o.Plan, x.Configz)
	}
	if spec.Configz == nil {
		spec.Configz = buildLoggedConfig(o.Plan)
	}

	spec.Serving = servingFolder(o.Plan)

	spec.Labels = map[string]string{}
	for _, l := range o.Plan.Node.Labels {
		spec.Labels[l.Key] = l.Value
	}

	planned := map[kubelet.Taint]bool{}
	for _, t := range o.Plan.Node.Taints {
		planned[t.Taint] = true
		if t.Startup { // its owner removes it: it is neither compared nor patched
			if spec.TaintCredential != "" {
				spec.StartupTaints = append(spec.StartupTaints, t.Taint)
			}
			continue
		}
		spec.Taints = append(spec.Taints, t.Taint)
		if spec.TaintCredential != "" && t.IsOfSite() && !t.IsStartup() {
			spec.OwnTaints = append(spec.OwnTaints, t.Taint)
		}
	}

	spec.GoneLabels = map[string][]string{}
	for _, was := range nodesSinceGood(o) {
		addGone(spec, was, planned)
	}
}

// addGone adds the labels and taints of an earlier node that the plan has dropped, except for startup taints.
func addGone(spec *activation.Spec, was desired.Stored, planned map[kubelet.Taint]bool) {
	for _, l := range was.Labels {
		key := l[0]
		value := l[1]
		if _, isPlanned := spec.Labels[key]; !isPlanned {
			spec.GoneLabels[key] = appendNew(spec.GoneLabels[key], value)
		}
	}

	for _, t := range was.Taints {
		if !planned[t] && !slices.Contains(was.StartupTaints, t) {
			spec.GoneTaints = appendNew(spec.GoneTaints, t)
		}
	}
}

// changesStartupTaints reports whether a plan has other startup taints than the generation in place. The files may be
// the same while the comparison and the patch of the Node are not.
func changesStartupTaints(o ProposalInput) bool {
	cur := readCurrent(o.Store)
	if cur == nil || cur.PlanID == PlanID(o.Plan) { // the hash in the ID is also of the taints
		return false
	}
	was, err := desired.ReadStoredPlan(o.Store, cur.Gen)

	return err == nil && !slices.Equal(was.Node.StartupTaints, o.Plan.Node.Stored().StartupTaints)
}

func appendNew[S ~[]E, E comparable](list S, e E) S {
	if slices.Contains(list, e) {
		return list
	}

	return append(list, e)
}

// nodesSinceGood returns the nodes of the generations from the last good one to the one in place.
func nodesSinceGood(o ProposalInput) (out []desired.Stored) {
	cur := readCurrent(o.Store)
	if cur == nil {
		return nil
	}

	from, ok := o.Store.LastGood()
	if !ok {
		from = cur.Gen
	}

	isOwn := func(gen int) bool {
		return o.compareMachine(gen).Foreign() == ""
	}

	oldest := max(from, 1)
	for gen := cur.Gen; gen >= oldest && isOwn(gen); gen-- {
		if was, err := desired.ReadStoredPlan(o.Store, gen); err == nil {
			out = append(out, was.Node)
		}
	}

	return out
}
