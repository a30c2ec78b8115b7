package boot

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// planPart is a part of the plan that may be unknown.
type planPart string

// The parts of a plan. The first five are those of `node` as sites see it.
const (
	partLabels    planPart = "labels"
	partTaints    planPart = "taints"
	partFlags     planPart = "flags"
	partConfig    planPart = "kubelet_config"
	partReserved  planPart = "reserved"
	partKubelet   planPart = "kubelet"   // its version, and whether the node has joined
	partFacts     planPart = "facts"     // of the only detect-hw
	partDetectors planPart = "detectors" // the report of a detector
	partStages    planPart = "stages"    // whether a stage fails
	partRendered  planPart = "rendered"  // a file, a unit, a precondition
	partTargets   planPart = "targets"   // the managed files on the disk
	partAccess    planPart = "access"    // the cluster block, the detector blocks
)

// unknowns are the unknown parts, each with the questions that a recording was never asked, sorted. A part without
// a question is unknown because a check has no machine.
type unknowns map[planPart][]string

// newUnknowns returns parts that are unknown for the same reasons.
func newUnknowns(questions []string, parts ...planPart) unknowns {
	out := unknowns{}
	for _, p := range parts {
		out[p] = sortUnique(questions)
	}

	return out
}

func sortUnique(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}

// String lists the parts.
func (u unknowns) String() string {
	var names []string
	for _, p := range slices.Sorted(maps.Keys(u)) {
		names = append(names, string(p))
	}

	return strings.Join(names, ", ")
}

// join returns these parts and more, each with the questions of both. It changes neither.
func (u unknowns) join(more unknowns) unknowns {
	out := unknowns{}
	maps.Copy(out, u)
	for p, questions := range more {
		out[p] = sortUnique(slices.Concat(out[p], questions))
	}

	return out
}

// isComplete is the one rule for the plan of a boot, of a replay and of a check: it was rendered without an error,
// no unknown value reached a label, a taint, a flag, a file, a unit or a condition, and no place is named that
// depends on a question without an answer.
func isComplete(isRendered bool, ds hcl.Diagnostics, u unknowns) bool {
	return isRendered && !ds.HasErrors() && len(u) == 0 && len(listUnread(ds)) == 0
}

// findUnknown returns the parts that depend on a block, if a value of the block is unknown.
func findUnknown(b schema.Body, parts ...planPart) unknowns {
	if b.Known() {
		return nil
	}

	return newUnknowns(b.Unread(), parts...)
}

// toUnread returns the parts that a recording does not contain, in the form that stages take.
func (u unknowns) toUnread() stages.Unread {
	has := func(p planPart) bool {
		return len(u[p]) > 0
	}

	return stages.Unread{
		Labels:    has(partLabels),
		Taints:    has(partTaints),
		Flags:     has(partFlags),
		Config:    has(partConfig),
		Kubelet:   has(partKubelet),
		Facts:     has(partFacts),
		Detectors: u[partDetectors],
	}
}

// mask returns the value of `node` with the parts unknown that a recording does not contain.
func (u unknowns) mask(n cty.Value) cty.Value {
	m := n.AsValueMap()
	for _, p := range []planPart{partLabels, partTaints, partFlags, partConfig, partReserved} {
		if questions := u[p]; len(questions) > 0 {
			unknown := cty.UnknownVal(eval.NodeType().AttributeType(string(p)))
			m[string(p)] = value.Because(unknown, questions)
		}
	}

	return cty.ObjectVal(m)
}

// listParts returns the parts of the node that a decide stage adds to.
func listParts(i *lang.Instance) (out []planPart) {
	for _, name := range i.Spec.Adds {
		out = append(out, planPart(name))
	}

	return out
}
