package write

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

// owners looks for paths that two blocks write, also where the content of one is not known before a machine is: the
// merge, which says the same, sees rendered files only.
func (r *renderer) owners() {
	have := map[string]hcl.Range{}
	own := map[string]string{} // the block of stage write that writes a path without being asked to, by path
	var files []node.File      // as far as their paths are known
	claim := func(p schema.Value[string], b schema.Body, preset string) {
		path, at := p.V, p.Range
		if !p.Set() {
			path, at = preset, b.Range
		}
		if !p.Cty.IsKnown() || path == "" || b.Undecided {
			return
		}
		if first, ok := have[path]; ok && b.Type == "file" && own[path] != "" {
			r.fail(fault.Conflict, at, "Two owners of "+path, "Stage \"write\" writes it by itself, by its %[1]s, at %[2]s. Change it there, or leave that out: %[1]s { when = false }.", own[path], first.Filename+":"+strconv.Itoa(first.Start.Line)+":"+strconv.Itoa(first.Start.Column))
			return
		}
		if first, ok := have[path]; ok {
			r.fail(fault.Conflict, at, "Two owners of "+path, "It is written here, and at %s:%d:%d. One owner for each path: remove one of them, or give it another path.", first.Filename, first.Start.Line, first.Start.Column)
			return
		}
		have[path] = at
		f := node.File{Path: path, Purpose: b.Type, Origins: place(r.in.Address, at)}
		if b.Type == "directory" {
			f.Kind = node.Directory
			if m := dirMode.Of(b); m.Cty.IsKnown() {
				f.Mode = mode(m)
			}
			if o := dirOwner.Of(b); o.Cty.IsKnown() {
				f.Owner, f.OwnerRange = o.V, o.Range
			}
		}
		files = append(files, f)
		if b.Type != "file" && b.Type != "directory" {
			own[path] = b.Type
		}
		if !node.IsWritable(path, nil) {
			r.diags = append(r.diags, origin.Warning(fault.CannotWrite, at, "prelet.service may not write "+path, "%s", node.WhyReadOnly(path)))
		}
	}
	if b, ok := r.cfg.One("bootstrap_kubeconfig"); ok {
		claim(bootPath.Of(b), b, "")
	}
	if b, ok := r.cfg.One("ca_certificate"); ok {
		claim(caPath.Of(b), b, "")
	}
	if b, ok := r.cfg.One("kubelet_config"); ok && configLayout.Of(b).Cty.IsKnown() {
		claim(configPath.Of(b), b, configTarget(b, r.in)) // its place is the same in all layouts
	}
	if b, ok := r.cfg.One("kubelet_flags"); ok {
		preset := ""
		if r.in.Facts != nil {
			preset = flagsFile(b, r.in)
		}
		claim(flagsPath.Of(b), b, preset)
	}
	for _, b := range r.cfg.Blocks["file"] {
		claim(filePath.Of(b), b, "")
	}
	for _, b := range r.cfg.Blocks["directory"] {
		claim(dirPath.Of(b), b, "")
	}

	slices.SortFunc(files, func(a, b node.File) int { return strings.Compare(a.Path, b.Path) })
	r.diags = append(r.diags, node.CheckFolders(files, nil)...)
}
