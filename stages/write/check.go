package write

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

// pathCheck finds paths that two blocks write, even if the content of one is not known without a machine: the merge
// compares rendered files only.
type pathCheck struct {
	*renderer
	first   map[string]hcl.Range // by path: the block that writes it
	preset  map[string]string    // by path: the type of a block of the kubelet that writes it
	claimed []node.File
}

// checkPaths reports paths that two blocks write, and paths that prelet's unit may not write.
func (r *renderer) checkPaths() {
	c := pathCheck{
		renderer: r,
		first:    map[string]hcl.Range{},
		preset:   map[string]string{},
	}
	c.claimAll("bootstrap_kubeconfig", bootPath)
	c.claimAll("ca_certificate", caPath)
	c.claimAll("kubelet_config", configPath)
	c.claimAll("kubelet_flags", flagsPath)
	c.claimAll("file", filePath)
	c.claimAll("directory", dirPath)

	slices.SortFunc(c.claimed, func(a, b node.File) int {
		return cmp.Compare(a.Path, b.Path)
	})
	r.Report(node.CheckFolders(c.claimed, nil)...)
}

// claimAll claims the paths of all blocks of a type.
func (c *pathCheck) claimAll(blockType string, path schema.Attr[string]) {
	for _, b := range c.cfg.Blocks[blockType] {
		c.claim(path.Of(b), b)
	}
}

// choosePreset returns the path of a block that sets none; "" if it is not known without a machine.
func (c *pathCheck) choosePreset(b schema.Body) string {
	switch {
	case b.Type == "kubelet_config" && configLayout.Of(b).Cty.IsKnown():
		return configTarget(b, c.in) // the same on all distributions
	case b.Type == "kubelet_flags" && c.in.Facts != nil:
		return flagsTarget(b, c.in)
	}

	return ""
}

// claim notes that a block writes a path.
func (c *pathCheck) claim(p schema.Value[string], b schema.Body) {
	path := p.V
	at := p.Range
	if !p.Set() {
		path = c.choosePreset(b)
		at = b.Range
	}
	if !p.Cty.IsKnown() || path == "" || b.Undecided {
		return
	}
	if first, ok := c.first[path]; ok {
		c.refuseSecond(path, at, first, b.Type)
		return
	}

	c.first[path] = at
	f := node.File{
		Path:    path,
		Purpose: b.Type,
		Origins: place(c.in.Address, at),
	}
	switch b.Type {
	case "file":
	case "directory":
		f.Kind = node.Directory
		if m := dirMode.Of(b); m.Cty.IsKnown() {
			f.Mode = parsePermissions(m)
		}
		if o := dirOwner.Of(b); o.Cty.IsKnown() {
			f.Owner = o.V
			f.OwnerRange = o.Range
		}
	default:
		c.preset[path] = b.Type
	}
	c.claimed = append(c.claimed, f)

	if !node.IsWritable(path, nil) {
		c.Warn(fault.CannotWrite, at, "prelet.service may not write "+path, "%s", node.WhyReadOnly(path))
	}
}

func (c *pathCheck) refuseSecond(path string, at, first hcl.Range, blockType string) {
	where := fmt.Sprintf("%s:%d:%d", first.Filename, first.Start.Line, first.Start.Column)
	if owner := c.preset[path]; owner != "" && blockType == "file" {
		c.Error(
			fault.Conflict, at, "Two owners of "+path,
			"Block %[1]s of stage \"write\" writes it, at %[2]s. Change it there, or leave that block out: "+
				"%[1]s { when = false }.", owner, where,
		)
		return
	}
	c.Error(
		fault.Conflict, at, "Two owners of "+path,
		"It is written here, and at %s. One owner for each path: remove one of them, or give it another path.", where,
	)
}
