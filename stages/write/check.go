package write

import (
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/schema"
)

// checkPaths reports paths that two blocks write, and paths that prelet's unit may not write. It does so even if the
// content of a block is not known without a machine: the merge compares rendered files only.
func (r *renderer) checkPaths() {
	_, diags := desired.MergeFiles(slices.Concat(
		r.claimAll("bootstrap_kubeconfig", "bootstrap-kubeconfig", bootPath),
		r.claimAll("ca_certificate", "ca", caPath),
		r.claimAll("kubelet_config", "kubelet-config", configPath),
		r.claimAll("kubelet_flags", "kubelet-flags", flagsPath),
		r.claimAll("file", "file", filePath),
		r.claimAll("directory", "directory", dirPath),
	))
	r.Report(diags...)
}

// claimAll returns the files of all blocks of a type, as far as they are known without a machine.
func (r *renderer) claimAll(blockType, purpose string, path schema.Attr[string]) (out []desired.File) {
	for _, b := range r.cfg.Blocks[blockType] {
		f := desired.File{Path: r.findPath(path.Of(b), b), Purpose: purpose}
		if f.Path == "" || b.Undecided {
			continue
		}
		at := b.Range
		if p := path.Of(b); p.Set() {
			at = p.Range
		}
		f.Origins = place(r.in.Address, at)
		if purpose == "directory" {
			f.Kind = desired.Directory
			if m := dirMode.Of(b); m.Cty.IsKnown() {
				f.Mode = parsePermissions(m)
			}
			if o := dirOwner.Of(b); o.Cty.IsKnown() {
				f.Owner = o.V
				f.OwnerRange = o.Range
			}
		}
		out = append(out, f)

		if !desired.IsWritable(f.Path, nil) {
			r.Warn(fault.CannotWrite, at, "prelet.service may not write "+f.Path, "%s", desired.WhyReadOnly(f.Path))
		}
	}

	return out
}

// findPath returns the path that a block writes; "" if it is not known without a machine.
func (r *renderer) findPath(p schema.Value[string], b schema.Body) string {
	switch {
	case p.Set() || !p.Cty.IsKnown():
		return p.V
	case b.Type == "kubelet_config" && configLayout.Of(b).Cty.IsKnown():
		return configTarget(b, r.in) // the same on all distributions
	case b.Type == "kubelet_flags" && r.in.Facts != nil:
		return flagsTarget(b, r.in)
	}

	return ""
}
