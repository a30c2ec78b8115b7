// Package effective computes the configuration that the kubelet of a node works with: its file with drop-ins, flags of
// the site and of its unit. It finishes the merged node by it. It reads no file.
package effective

import (
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/stages"
)

// separate returns a node with the configuration of the kubelet's --config, and the drop-ins in a folder that the
// kubelet merges over it, in their order: those of the image, and the planned one with the configuration own.
func separate(in stages.Inputs, n desired.Node, own map[string]any, folder string) (desired.Node, []stages.DropIn) {
	if folder == "" || in.DropIns == nil {
		return n, nil
	}

	dropIns := slices.DeleteFunc(in.DropIns(folder), func(d stages.DropIn) bool {
		return d.Path == n.DropIn || d.Path == folder && makesFolder(n, folder)
	})
	for _, f := range n.Files {
		isDropIn := strings.HasPrefix(f.Path, folder+"/") && path.Ext(f.Path) == ".conf"
		if !isDropIn || f.Path == n.DropIn {
			continue
		}
		d, isCreated := stages.DropIn{}, false
		if f.CreateOnly {
			d, isCreated = in.Created(f.Path)
		}
		if !isCreated {
			d = parsePlanned(f)
		}
		dropIns = putDropIn(dropIns, d)
	}
	if n.DropIn == "" {
		return n, dropIns
	}
	n.Config = dropDeleted(in.Base.Config, n.Settings)

	return n, putDropIn(dropIns, stages.DropIn{Path: n.DropIn, Config: own})
}

// makesFolder reports whether the plan makes a folder, or a file in it.
func makesFolder(n desired.Node, folder string) bool {
	return n.DropIn != "" || slices.ContainsFunc(n.Files, func(f desired.File) bool {
		return f.Path == folder || strings.HasPrefix(f.Path, folder+"/")
	})
}

// Files are the files of the configuration of a kubelet.
type Files struct {
	File    map[string]any // that of --config; nil: no drop-ins are merged over it
	Folder  string         // that of --config-dir; "" for none
	DropIns []stages.DropIn
	Merged  stages.MergedConfig
}

// Merge merges the files of the configuration of a node's kubelet. It fails for values that JSON cannot express.
func Merge(in stages.Inputs, n desired.Node) (Files, error) { return merge(in, n, OwnConfig(n)) }

// merge is Merge with another configuration of the node's own drop-in.
func merge(in stages.Inputs, n desired.Node, own map[string]any) (files Files, err error) {
	files.Folder = n.FindPath("config-dir")
	base, dropIns := separate(in, n, own, files.Folder)
	files.DropIns = dropIns
	if files.Folder != "" {
		files.File = base.Config
		if n.DropIn != "" && in.Base.File != nil {
			files.File = in.Base.File
		}
	}
	files.Merged, err = stages.MergeDropIns(base, dropIns, in.Kubelet.KnownVersion())

	return files, err
}

// Compute returns the configuration that the kubelet works with. own is that of the node's own drop-in. It is empty if
// the kubelet cannot read its files.
func Compute(in stages.Inputs, n desired.Node, own map[string]any) map[string]any {
	n = applyInherited(n)
	files, err := merge(in, n, own)
	if err != nil {
		return map[string]any{}
	}

	return files.Merged.Effective(n.Flags)
}

// FindDropIn returns the drop-in that the kubelet has a field from; nil for none, or a field that none has.
func (f Files) FindDropIn(pointer string) *stages.DropIn {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if d := findLast(f.DropIns, p); d != nil {
			return d
		}
		if _, ok := kubelet.LookUp(f.File, p); ok {
			return nil
		}
	}

	return nil
}
