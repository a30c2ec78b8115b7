package effective

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
)

// warnOverridden warns of settings of the node that have no effect, because the kubelet's unit has another value
// behind the flags file, and the last value counts. n has not inherited anything yet.
func warnOverridden(n desired.Node) (found hcl.Diagnostics) {
	for _, own := range n.Flags {
		for _, late := range n.Inherited.Flags {
			if late.Name == own.Name && isOverridden(own, late) {
				what := "--" + own.Name + "=" + own.Value
				flag := late.Name + "=" + late.Value
				found = append(found, warnNoEffect(what, flag, own.Origins, late.Origins))
			}
		}
	}

	for _, own := range n.Labels {
		for _, late := range n.Inherited.Labels {
			if late.Late && late.Key == own.Key && late.Value != own.Value {
				what := "Label " + own.Key + "=" + own.Value
				flag := "node-labels=" + late.Key + "=" + late.Value
				found = append(found, warnNoEffect(what, flag, own.Origins, late.Origins))
			}
		}
	}

	late := slices.IndexFunc(n.Taints, isLateTaint)
	if late < 0 {
		return found
	}
	for _, own := range n.Taints {
		if !own.Late {
			what := "Taint " + own.String()
			found = append(found, warnNoEffect(what, taintFlag, own.Origins, n.Taints[late].Origins))
		}
	}

	return found
}

const taintFlag = "register-with-taints"

func isLateTaint(t desired.Taint) bool {
	return t.Late
}

// isOverridden reports whether the kubelet uses only the value of an inherited flag.
func isOverridden(own, late desired.Flag) bool {
	if !late.Late || own.Value == late.Value {
		return false
	}

	return kubelet.JoinFlag(own.Name, own.Value, late.Value) == late.Value
}

func warnNoEffect(what, flag string, own, late []origin.Origin) *hcl.Diagnostic {
	return origin.Warning(
		fault.Conflict, origin.LastRange(own), what+" has no effect here",
		"%s has --%s behind the flags that prelet writes, and the kubelet uses the last one. Remove it there.",
		strings.Replace(late[0].Ref, "the ", "The ", 1), flag,
	)
}

// applyInherited adds to a node the settings that its kubelet gets before and after those of the flags file. The last
// value of a flag counts; some flags accumulate.
func applyInherited(n desired.Node) desired.Node {
	in := n.Inherited
	setsOwn := len(n.Flags) > 0 || len(n.Labels) > 0 || n.TaintFlag && len(n.Taints) > 0
	if in.IfUnset != nil && !setsOwn {
		in = *in.IfUnset
	}
	n.Flags = inheritFlags(n.Flags, in.Flags)
	n.Labels = inheritLabels(n.Labels, in.Labels)
	if slices.ContainsFunc(n.Taints, isLateTaint) {
		n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t desired.Taint) bool {
			return !t.Late
		})
	}

	return n
}

func inheritFlags(own, inherited []desired.Flag) []desired.Flag {
	own = slices.Clone(own)
	var out []desired.Flag
	for _, f := range inherited {
		i := slices.IndexFunc(own, func(o desired.Flag) bool {
			return o.Name == f.Name
		})
		if i < 0 {
			out = append(out, f)
			continue
		}

		o := &own[i]
		joined := kubelet.JoinFlag(f.Name, o.Value, f.Value)
		if !f.Late {
			joined = kubelet.JoinFlag(f.Name, f.Value, o.Value)
		}
		o.Earlier = slices.Concat(o.Earlier, f.Earlier)
		switch joined {
		case o.Value:
			o.Earlier = append(o.Earlier, f.Value)
		case f.Value:
			o.Earlier = append(o.Earlier, o.Value)
		}
		if f.Late || joined != o.Value && o.Value != "" {
			o.Own = o.Value
			o.Value = joined
			o.Origins = slices.Concat(o.Origins, f.Origins)
		}
	}

	return append(out, own...)
}

func inheritLabels(own, inherited []desired.Label) []desired.Label {
	out := slices.Clone(own)
	for _, l := range inherited {
		i := slices.IndexFunc(out, func(o desired.Label) bool {
			return o.Key == l.Key
		})
		switch {
		case i < 0:
			out = append(out, l)
		case l.Late:
			out[i].Value = l.Value
		}
	}
	slices.SortStableFunc(out, func(a, b desired.Label) int {
		return strings.Compare(a.Key, b.Key)
	})

	return out
}
