package effective

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// Finish computes the reserved resources of a merged node, and the taints that its kubelet registers with, from the
// configuration that this kubelet works with: drop-ins and flags included, whether a stage or the image set them.
// It reports values that are not allowed. isWritten: the renderers have added to the node; before,
// the configuration does not contain the taints of stages.
func Finish(in stages.Inputs, n desired.Node, isWritten bool) (_ desired.Node, found hcl.Diagnostics) {
	if in.Start != nil {
		n.Aliases = in.Start.Aliases
		n.UnitFiles = listUnitFiles(*in.Start)
	}
	overridden := warnOverridden(n)
	n = applyInherited(n)
	files, err := Merge(in, n)
	if err != nil {
		return n, nil // the stage that renders the configuration reports it
	}
	n.Effective = files.Merged.Effective(n.Flags)

	if isWritten {
		n, found = finishTaints(n, files.DropIns)
		found = slices.Concat(found, checkReplaced(n, files.DropIns), overridden)
	}
	n, refused := finishReserved(n, files.Merged)

	return replaceReserved(in, n), append(found, refused...)
}

// listUnitFiles returns the files that a unit names: its environment files, its program and their arguments.
func listUnitFiles(start tape.StartAns) []string {
	files := slices.Clone(start.Files)
	for _, text := range slices.Concat(start.Words, slices.Collect(maps.Values(start.Vars))) {
		for _, word := range strings.Fields(text) {
			if flag, value, isFlag := strings.Cut(word, "="); isFlag && strings.HasPrefix(flag, "-") {
				word = value
			}
			if path.IsAbs(word) {
				files = append(files, word)
			}
		}
	}
	slices.Sort(files)

	return slices.Compact(files)
}

// replaceReserved gives a node the settings of its finished reservation, such as reservedMemory: a drop-in or a flag
// may have changed the amounts in it.
func replaceReserved(in stages.Inputs, n desired.Node) desired.Node {
	if n.Reserved == nil || len(n.Reserved.Settings) == 0 {
		return n
	}

	n = n.Replace(n.Reserved.Settings)
	if files, err := Merge(in, n); err == nil {
		n.Effective = files.Merged.Effective(n.Flags)
	}

	return n
}

// OwnConfig returns the configuration of a node's own drop-in: its settings, and an empty list of the base that
// the kubelet would lose (stages/write, setDropIn).
func OwnConfig(n desired.Node) map[string]any {
	c := kubelet.NewConfig()
	for _, s := range n.Settings {
		if !s.Delete {
			_ = c.Set(s.Path, s.Value) // the stage that renders the settings reports an error
		}
	}
	const field = "enforceNodeAllocatable"
	if list, isList := n.Config[field].([]any); isList && len(list) == 0 {
		_ = c.Set([]string{field}, list)
	}

	return c.Object()
}

// finishTaints replaces the taints of a node by those of its configuration, unless the flag has the taints.
func finishTaints(n desired.Node, dropIns []stages.DropIn) (desired.Node, hcl.Diagnostics) {
	_, isSet := n.ConfigOrigins["/registerWithTaints"]
	_, isEffective := n.Effective["registerWithTaints"]
	if n.TaintFlag || !isSet && !isEffective {
		return n, nil
	}

	planned := n.Taints
	n.Taints = listTaints(n, dropIns)

	return n, checkTaintsStay(n, planned, dropIns)
}

// listTaints returns the taints of a node's configuration, with their origins.
func listTaints(n desired.Node, dropIns []stages.DropIn) (out []desired.Taint) {
	list, err := kubelet.ConfigTaints(n.Effective)
	if err != nil {
		return n.Taints // the rules report it
	}

	from := n.ConfigOrigins["/registerWithTaints"]
	ref := "registerWithTaints"
	if d := findLast(dropIns, "/"+ref); d != nil && d.Path != n.DropIn {
		from = nil
		ref = d.Path
	}
	if len(from) == 0 {
		from = []origin.Origin{{
			Kind: origin.Base,
			Role: origin.Value,
			Ref:  ref,
		}}
	}

	for _, t := range list {
		one := desired.Taint{Taint: t, Origins: from}
		isSame := func(o desired.Taint) bool {
			return o.String() == one.String()
		}
		if i := slices.IndexFunc(n.Taints, isSame); i >= 0 {
			one = n.Taints[i]
		}
		out = append(out, one)
	}

	return out
}

// finishReserved computes the reserved resources of the node. If they are refused only because of flags that its
// kubelet may not get, it is computed without them, and the errors are warnings.
func finishReserved(n desired.Node, merged stages.MergedConfig) (desired.Node, hcl.Diagnostics) {
	if n.Reserved == nil {
		return n, nil
	}
	reserved, diags := n.Reserved.Finish(n)

	certain := slices.DeleteFunc(slices.Clone(n.Flags), func(f desired.Flag) bool {
		return f.Assumed
	})
	if diags.HasErrors() && len(certain) < len(n.Flags) {
		without := n
		without.Flags = certain
		without.Effective = merged.Effective(certain)
		again, more := n.Reserved.Finish(without)
		if !more.HasErrors() {
			reserved = again
			diags = append(listErrorsAsWarnings(diags), more...)
		}
	}
	if reserved != nil {
		n.Reserved = reserved
	}

	return n, diags
}

func listErrorsAsWarnings(ds hcl.Diagnostics) (out hcl.Diagnostics) {
	for _, d := range ds {
		if d.Severity == hcl.DiagError {
			out = append(out, origin.MakeWarning(d))
		}
	}

	return out
}
