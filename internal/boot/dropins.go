package boot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// findLast returns the last drop-in that has a field, nil for none.
func findLast(dropIns []dropIn, path ...string) *dropIn {
	for i := range slices.Backward(dropIns) {
		if _, ok := lookUp(dropIns[i].config, path); ok {
			return &dropIns[i]
		}
	}

	return nil
}

// lookUp returns a field of a configuration.
func lookUp(config map[string]any, path []string) (v any, ok bool) {
	v = config
	for _, name := range path {
		object, _ := v.(map[string]any)
		if v, ok = object[name]; !ok {
			return nil, false
		}
	}

	return v, v != nil
}

// compareDropIns says which settings of the site a drop-in of the image replaces, as it comes after them, and which of
// the image's they replace: the kubelet does both without a word.
func compareDropIns(n node.Node, dropIns []dropIn) (diags hcl.Diagnostics) {
	own := slices.IndexFunc(dropIns, func(d dropIn) bool { return d.path == n.DropIn })
	for _, s := range n.Settings {
		name := strings.Join(s.Path, ".")
		d := findLast(dropIns[own+1:], s.Path...)
		switch {
		case d != nil && name == "registerWithTaints": // judged as taints
		case d != nil && !hasValue(*d, s):
			diags = append(diags, origin.Warning(fault.Conflict, s.At(hcl.Range{}), name+" has no effect here",
				"%s of the image comes after it, and the kubelet takes %s from there without a word. Take it out of that "+
					"file, or give prelet's own drop-in a name that sorts last.", d.path, name))
		case d == nil && own > 0:
			if d = findLast(dropIns[:own], s.Path...); d != nil && !hasValue(*d, s) {
				diags = append(diags, origin.Replaced("config"+s.Pointer(), s.At(hcl.Range{}), name+" of the image is replaced",
					"%s has it too, and the kubelet takes that of %s.", d.path, n.DropIn))
			}
		}
	}

	return diags
}

func hasValue(d dropIn, s node.Setting) bool {
	v, _ := lookUp(d.config, s.Path)

	return !s.Delete && fmt.Sprint(v) == fmt.Sprint(s.Value)
}

// checkTaintsStay refuses taints of the site that a later drop-in of the image takes away. planned are those of the node
// before the drop-ins are merged.
func checkTaintsStay(n node.Node, planned []node.Taint, dropIns []dropIn) (diags hcl.Diagnostics) {
	d := findLast(dropIns, "registerWithTaints")
	if d == nil || d.path == n.DropIn {
		return nil
	}
	for _, t := range planned {
		isThere := slices.ContainsFunc(n.Taints, func(o node.Taint) bool { return o.String() == t.String() })
		if isThere || len(t.Origins) == 0 || t.Origins[0].Kind == origin.Base {
			continue
		}
		diags = append(diags, origin.Error(fault.Conflict, t.Origins[0].Range, "Taint "+t.String()+" has no effect here",
			"registerWithTaints of %s, a drop-in of the image, comes after it and replaces the whole list without a word. Take "+
				"it out of that file, or write taints = \"flag\" in kubelet_flags.", d.path))
	}

	return diags
}
