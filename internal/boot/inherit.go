package boot

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// readStart asks how the kubelet's unit starts it. nil: nobody knows, as below another root, or in a recording that is
// older than the question.
func (in decideInput) readStart() *world.StartAns {
	if in.tape == nil {
		return nil
	}

	unit := "kubelet.service"
	for _, i := range in.checked.site.OfType("restart") {
		a := i.Body.Attributes["unit"]
		if a == nil || i.Addr() != "restart.kubelet" {
			continue
		}
		if v, diags := a.Expr.Value(nil); !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			unit = v.AsString()
		}
	}
	a, _, _ := world.UnitOf.Ask(in.eval.AskContext(), in.tape, world.UnitReq{Name: unit, Start: true}) // a failure has none

	return a.Start
}

// sureOf returns a node without the flags that its kubelet may not get.
func sureOf(n node.Node) node.Node {
	n.Flags = slices.DeleteFunc(slices.Clone(n.Flags), func(f node.Flag) bool { return f.Assumed })

	return n
}

// soften returns the errors among diagnostics as warnings.
func soften(found hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range found {
		if d.Severity == hcl.DiagError {
			one := *d
			one.Severity = hcl.DiagWarning
			out = append(out, &one)
		}
	}

	return out
}

// compareLate warns of what the kubelet's unit has behind the flags of the flags file, and so instead of them. It takes a
// node that has inherited nothing yet.
func compareLate(n node.Node) (diags hcl.Diagnostics) {
	warn := func(what, flag string, own, late []origin.Origin) {
		var at hcl.Range
		for _, o := range own {
			if o.Range.Filename != "" {
				at = o.Range
			}
		}
		diags = append(diags, origin.Warning(fault.Conflict, at, what+" has no effect here",
			"%s has --%s behind the flags that prelet writes, and the kubelet takes the last one. Take it out there.",
			strings.Replace(late[0].Ref, "the ", "The ", 1), flag))
	}

	for _, own := range n.Flags {
		for _, f := range n.Inherited.Flags {
			if f.Late && f.Name == own.Name && kubelet.JoinFlag(f.Name, own.Value, f.Value) == f.Value && f.Value != own.Value {
				warn("--"+own.Name+"="+own.Value, f.Name+"="+f.Value, own.Origins, f.Origins)
			}
		}
	}
	for _, own := range n.Labels {
		for _, l := range n.Inherited.Labels {
			if l.Late && l.Key == own.Key && l.Value != own.Value {
				warn("Label "+own.Key+"="+own.Value, "node-labels="+l.Key+"="+l.Value, own.Origins, l.Origins)
			}
		}
	}
	for _, late := range n.Taints {
		if !late.Late {
			continue
		}
		for _, own := range n.Taints {
			if !own.Late {
				warn("Taint "+own.String(), "register-with-taints", own.Origins, late.Origins)
			}
		}

		break // one is enough
	}

	return diags
}

// inherit adds to a node what its kubelet gets before the flags of the flags file, and behind them: of a flag the last use
// counts, and some add up.
func inherit(n node.Node) node.Node {
	var first []node.Flag
	n.Flags = slices.Clone(n.Flags)
	for _, f := range n.Inherited.Flags {
		i := slices.IndexFunc(n.Flags, func(o node.Flag) bool { return o.Name == f.Name })
		if i < 0 {
			first = append(first, f)
			continue
		}
		own := n.Flags[i]
		if f.Late {
			n.Flags[i].Own, n.Flags[i].Value = own.Value, kubelet.JoinFlag(f.Name, own.Value, f.Value)
			n.Flags[i].Origins = append(slices.Clip(own.Origins), f.Origins...)
			continue
		}
		if joined := kubelet.JoinFlag(f.Name, f.Value, own.Value); joined != own.Value && own.Value != "" {
			n.Flags[i].Own, n.Flags[i].Value = own.Value, joined
			n.Flags[i].Origins = append(slices.Clip(own.Origins), f.Origins...)
		}
	}
	n.Flags = append(first, n.Flags...)

	n.Labels = slices.Clone(n.Labels)
	for _, l := range n.Inherited.Labels {
		i := slices.IndexFunc(n.Labels, func(o node.Label) bool { return o.Key == l.Key })
		switch {
		case i < 0:
			n.Labels = append(n.Labels, l)
		case l.Late:
			n.Labels[i].Value = l.Value
		}
	}
	slices.SortStableFunc(n.Labels, func(a, b node.Label) int { return strings.Compare(a.Key, b.Key) })

	isLate := func(t node.Taint) bool { return t.Late }
	if slices.ContainsFunc(n.Taints, isLate) {
		n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t node.Taint) bool { return !isLate(t) })
	}

	return n
}
