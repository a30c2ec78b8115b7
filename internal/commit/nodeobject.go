package apply

import (
	"encoding/json"
	"slices"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// addNodeObject adds the sources of items and the planned Node object: its labels and taints, and those of earlier
// generations of this machine that are no longer planned. It looks at all generations since the last good one, because
// their labels may have reached the cluster.
func addNodeObject(o Options, act *activate.Plan) {
	act.Joins = !o.Plan.Kubelet.Joined &&
		slices.ContainsFunc(o.Plan.Node.Files, func(f node.File) bool { return f.Purpose == "bootstrap-kubeconfig" })

	act.Sources = collectSources(o.Plan)
	if x := o.Plan.Node.Activation; x != nil && x.Configz != "" {
		act.Configz = buildConfigz(o.Plan, x.Configz)
	}

	act.Labels = map[string]string{}
	for _, l := range o.Plan.Node.Labels {
		act.Labels[l.Key] = l.Value
	}

	for _, t := range o.Plan.Node.Taints {
		act.Taints = append(act.Taints, t.String())
	}

	act.GoneLabels = map[string][]string{}

	for _, was := range nodesSinceGood(o) {
		for _, l := range was.Labels {
			if _, planned := act.Labels[l[0]]; !planned && !slices.Contains(act.GoneLabels[l[0]], l[1]) {
				act.GoneLabels[l[0]] = append(act.GoneLabels[l[0]], l[1])
			}
		}

		for _, t := range was.Taints {
			if !slices.Contains(act.Taints, t) && !slices.Contains(act.GoneTaints, t) {
				act.GoneTaints = append(act.GoneTaints, t)
			}
		}
	}
}

// canonical contains the fields of node.Canonical that are read back.
type canonical struct {
	Labels [][2]string
	Taints []string
}

// nodesSinceGood returns the nodes of the generations from the last good one to the one in place.
func nodesSinceGood(o Options) (out []canonical) {
	cur, err := o.Store.Current()
	if err != nil || cur == nil {
		return nil
	}

	from, ok := o.Store.LastGood()
	if !ok {
		from = cur.Gen
	}

	for gen := cur.Gen; gen >= from && gen > 0 && machineid.Foreign(o.Store, gen, o.Machine) == ""; gen-- {
		if was, ok := readNode(o.Store, gen); ok {
			out = append(out, was)
		}
	}

	return out
}

func readNode(s *generation.Store, gen int) (canonical, bool) {
	var doc struct {
		Node canonical `json:"node"`
	}

	b, err := s.Blob(gen, "plan.json")

	return doc.Node, err == nil && json.Unmarshal(b, &doc) == nil
}
