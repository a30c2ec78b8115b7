package machine

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

// Unsigned is the Signature of a site that needs none.
const Unsigned = "not required"

// LoadedSite is a site that may be of several machines, with what loading it has found.
type LoadedSite struct {
	Site   *lang.Site
	Diags  hcl.Diagnostics
	checks evaluate.Checks

	Signature string // Unsigned, valid, refused, or not checked because the files were named

	Delivery *report.Delivery // of a node that pulls its site; nil for others
	block    schema.Delivery  // without the pulled layer
	degraded []fault.Reason   // about it
}

// Load reads the site and hides the secrets in it: the files of Config, or those in the usual places below Root.
func (e *Env) Load(w Where) *LoadedSite {
	l := &LoadedSite{Signature: Unsigned}
	o := SiteOptions(e.Version)
	o.Paths = w.Config
	o.Root = w.Root
	o.IsPast = w.IsPast
	files := w.Files
	if files == nil {
		files = lang.OS()
		o.Verify = Verifier(w.Root)
	}
	signed := o
	isDraft := !w.MustBeSigned && len(w.Config) > 0
	if isDraft {
		o.Verify = nil
	}
	l.Site, l.Diags = lang.Load(files, o)
	if w.Files == nil && len(w.Config) == 0 {
		e.loadPulled(w, o, l)
	}
	_ = LearnSite(e.Redactor, nil, l.Site)
	if isDraft && signed.Verify != nil && !l.Diags.HasErrors() {
		_, diags := lang.Load(files, signed)
		at := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool {
			return origin.CodeOf(d) == fault.SiteSignature && d.Severity == hcl.DiagError
		})
		if at >= 0 {
			l.Diags = append(l.Diags, origin.Warning(
				fault.SiteSignature, hcl.Range{}, "prelet run refuses this site",
				"The image requires a signature (%s), and: %s", SignersFile, diags[at].Detail,
			))
		}
	}
	if !isDraft && o.Verify != nil {
		l.checkSigned(w.StateDir())
	}
	switch {
	case signed.Verify == nil:
	case isDraft:
		l.Signature = "not checked"
	case origin.Code(l.Diags) == fault.SiteSignature:
		l.Signature = "refused"
	default:
		l.Signature = "valid"
	}

	return l
}

// SiteOptions returns the options of every site that this program reads.
func SiteOptions(version string) lang.LoadOptions {
	return lang.LoadOptions{Stages: builtin.Stages(), Version: version}
}
