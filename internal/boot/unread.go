package boot

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/stages"
)

// unreadOf are the questions that diagnostics say a recording was never asked, sorted.
func unreadOf(ds hcl.Diagnostics) (out []string) {
	for _, d := range ds {
		if x, ok := d.Extra.(origin.Extra); ok {
			out = append(out, x.Unread...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// markUnread makes what is unknown in a value say which questions have no answer, so that whoever uses it can name
// them too. Without questions the value stays as it is.
func markUnread(v cty.Value, questions []string) cty.Value {
	if len(questions) == 0 {
		return v
	}
	marks := cty.ValueMarks{}
	for _, q := range questions {
		marks[value.Unread{Question: q}] = struct{}{}
	}
	out, err := cty.Transform(v, func(_ cty.Path, x cty.Value) (cty.Value, error) {
		if !x.IsKnown() {
			return x.WithMarks(marks), nil
		}
		return x, nil
	})
	if err != nil { // the callback returns none
		return cty.UnknownVal(v.Type()).WithMarks(marks)
	}
	return out
}

// unreadParts are the questions that each part of the node depends on and that have no answer.
type unreadParts struct{ labels, taints, flags, config, kubelet, facts, detectors []string }

// told is the same for stages, which need no questions.
func (u *unreadParts) told() stages.Unread {
	return stages.Unread{Labels: len(u.labels) > 0, Taints: len(u.taints) > 0, Flags: len(u.flags) > 0, Config: len(u.config) > 0,
		Kubelet: len(u.kubelet) > 0, Facts: len(u.facts) > 0, Detectors: u.detectors}
}

// decided notes what a decide stage could not tell.
func (u *unreadParts) decided(typ string, questions []string) {
	switch typ {
	case "label":
		u.labels = append(u.labels, questions...)
	case "taint":
		u.taints = append(u.taints, questions...)
	default:
		u.config = append(u.config, questions...)
	}
}

// based notes what of the base could not be told: of the configuration, of the flags.
func (u *unreadParts) based(config, flags []string) {
	u.config = append(u.config, config...)
	u.taints = append(u.taints, append(slices.Clone(config), flags...)...)
	u.flags = append(u.flags, flags...)
	u.labels = append(u.labels, flags...)
}

// mask makes the parts of `node` unknown that a recording does not tell.
func (u *unreadParts) mask(n cty.Value) cty.Value {
	m := n.AsValueMap()
	for part, qs := range map[string][]string{"labels": u.labels, "taints": u.taints, "flags": u.flags, "kubelet_config": u.config, "reserved": u.config} {
		if len(qs) > 0 {
			m[part] = markUnread(cty.UnknownVal(eval.NodeType().AttributeType(part)), qs)
		}
	}
	return cty.ObjectVal(m)
}
