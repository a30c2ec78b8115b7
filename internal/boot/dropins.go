package boot

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

type dropIn = stages.DropIn

// readDropIns returns the drop-ins in a folder of the image, as they are without prelet. A folder that the kubelet
// could not list is one with a refusal.
func (in decideInput) readDropIns(dir string) (out []dropIn) {
	if in.tape == nil {
		return nil
	}
	req := world.DropInsReq{Dir: dir}
	list, _, err := world.DropIns.Ask(in.eval.AskContext(), in.tape, req)
	if err != nil {
		return nil
	}
	if list.Unlisted != "" {
		out = append(out, dropIn{Path: dir, Refusal: errors.New(list.Unlisted)})
	}

	for _, file := range list.Paths {
		if text, err := in.readDropIn(file); !isUnknown(err) {
			out = append(out, hostfiles.ParseDropIn(file, text, err))
		}
	}

	return out
}

// readCreated returns the drop-in that a file with create_only is on the disk now; exists is false if the plan makes
// it.
func (b basis) readCreated(f node.File) (d dropIn, exists bool) {
	if !f.CreateOnly {
		return dropIn{}, false
	}

	text, err := b.readFile(f.Path)
	switch {
	case fault.CodeOf(err) == fault.Absent:
		return dropIn{}, false
	case isUnknown(err):
		return dropIn{Path: f.Path}, true
	}

	return hostfiles.ParseDropIn(f.Path, text, err), true
}

// readDropIn returns the text of a drop-in, which may be a link.
func (in decideInput) readDropIn(path string) (string, error) {
	a, err := in.readOriginal(path)
	if err == nil && a.Exists && !a.Dir {
		return a.Text, nil
	}
	if err == nil { // prelet has made it
		return "", &fault.Fault{Code: fault.Unread, Why: path + " was not there before prelet"}
	}

	return in.readFile(path)
}

// readFile returns the text of a file as it is now.
func (in decideInput) readFile(path string) (string, error) {
	f, _, err := world.File.Ask(in.eval.AskContext(), in.tape, world.FileReq{Path: path})
	if err == nil && f.Private != "" {
		err = &fault.Fault{Code: fault.Denied, Why: f.Private}
	}

	return f.Text, err
}

// isUnknown reports whether an error says nothing on whether the kubelet can read a file: only prelet may not, or a
// recording does not have it.
func isUnknown(err error) bool {
	code := fault.CodeOf(err)
	return err != nil && (code == fault.Denied || code == fault.Unread)
}

// separate returns a node with the configuration of the kubelet's --config, and the drop-ins that the kubelet
// merges over it, in their order: those of the image, and the planned one with the configuration own.
func (b basis) separate(n node.Node, own map[string]any) (node.Node, []dropIn) {
	flag, ok := node.FindFlag(n.Flags, "config-dir")
	if !ok || b.DropIns == nil {
		return n, nil
	}

	folder := path.Clean(flag.Value)
	dropIns := slices.DeleteFunc(b.DropIns(folder), func(d dropIn) bool {
		return d.Path == n.DropIn || d.Path == folder && makesFolder(n, folder)
	})
	for _, f := range n.Files {
		isDropIn := strings.HasPrefix(f.Path, folder+"/") && path.Ext(f.Path) == ".conf"
		if !isDropIn || f.Path == n.DropIn {
			continue
		}
		if d, exists := b.readCreated(f); exists { // with create_only
			dropIns = hostfiles.PutDropIn(dropIns, d)
		} else {
			dropIns = hostfiles.PutDropIn(dropIns, hostfiles.ParsePlanned(f))
		}
	}
	if n.DropIn == "" {
		return n, dropIns
	}
	n.Config = hostfiles.DropDeleted(b.Base.Config, n.Settings)

	return n, hostfiles.PutDropIn(dropIns, dropIn{Path: n.DropIn, Config: own})
}

// makesFolder reports whether the plan makes a folder, or a file in it.
func makesFolder(n node.Node, folder string) bool {
	return n.DropIn != "" || slices.ContainsFunc(n.Files, func(f node.File) bool {
		return f.Path == folder || strings.HasPrefix(f.Path, folder+"/")
	})
}

// configFiles are the files of the configuration of a kubelet.
type configFiles struct {
	file    map[string]any // that of --config; nil: no drop-ins are merged over it
	dropIns []dropIn
	merged  stages.MergedConfig
}

// mergeFiles merges the files of the configuration of a node's kubelet. own is the configuration of its own drop-in. It
// fails for values that JSON cannot express.
func (b basis) mergeFiles(n node.Node, own map[string]any) (files configFiles, err error) {
	base, dropIns := b.separate(n, own)
	files.dropIns = dropIns
	if folder, _ := node.FindFlag(n.Flags, "config-dir"); folder.Value != "" {
		files.file = base.Config
		if n.DropIn != "" && b.Base.File != nil {
			files.file = b.Base.File
		}
	}
	files.merged, err = stages.MergeDropIns(base, dropIns, b.Kubelet.KnownVersion())

	return files, err
}

// findDropIn returns the drop-in that the kubelet has a field from; nil for none, or a field that none has.
func (f configFiles) findDropIn(pointer string) *dropIn {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if d := hostfiles.FindLast(f.dropIns, p); d != nil {
			return d
		}
		if _, ok := kubelet.LookUp(f.file, p); ok {
			return nil
		}
	}

	return nil
}
