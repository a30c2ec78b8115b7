package boot

import (
	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/node"
)

// NewStoredFile returns the entry of a file of a node in its stored plan.
func NewStoredFile(n node.Node, f node.File) node.StoredFile {
	out := node.StoredFile{Path: f.Path, Purpose: f.Purpose}
	if f.Notify == nil {
		return out
	}

	units, isKubelet := hostfiles.FindNotified(n, f, nil)
	for _, u := range units {
		out.Notify = append(out.Notify, u.Action+" "+u.Unit.Unit)
	}
	if isKubelet {
		out.Notify = append(out.Notify, "restart "+n.KubeletUnit())
	}

	return out
}
