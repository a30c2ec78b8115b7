package app

import (
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/stages/builtin"
)

// LoadedSite is a site that may be of several machines, with what loading it has found.
type LoadedSite struct {
	Once   sync.Once // of a loader for several machines
	Site   *lang.Site
	Diags  hcl.Diagnostics
	checks boot.Checks
}

// Load reads the site: the files of Config, those in the usual places, or those inside the recording.
func (g Given) Load(version string) (*lang.Site, hcl.Diagnostics) {
	if g.Recorded != nil && len(g.Config) == 0 {
		return lang.Parse(g.Recorded.Header.Site, PastOptions(version))
	}
	o := g.Layers(version)
	if g.From != "" {
		return lang.Load(AnyOwner{lang.OS()}, o)
	}
	isDraft := !g.MustBeSigned && len(g.Config) > 0
	if !isDraft {
		o.Verify = Verifier(g.Root)
	}

	s, diags := lang.Load(lang.OS(), o)
	if isDraft && !diags.HasErrors() {
		o.Verify = Verifier(g.Root)
		diags = append(diags, warnUnsigned(o)...)
	}
	if refused := CheckCounter(g.StateDir(), s.Counter); refused != nil {
		diags = append(diags, refused)
	}

	return s, diags
}

// ReadSite loads a site and hides the secrets in it.
func (e *Env) ReadSite(files lang.Files, o lang.Options) (*lang.Site, hcl.Diagnostics) {
	s, diags := lang.Load(files, o)
	LearnSite(e.Redactor, nil, s)

	return s, diags
}

// Layers returns the options of the site whose layers Config has, or the usual places below Root.
func (w *Where) Layers(version string) lang.Options {
	o := SiteOptions(version)
	o.Paths = w.Config
	o.Root = w.Root

	return o
}

// AnyOwner has the files of a site that does not control this machine, as in a checkout or in a container of CI: other
// users may change them.
type AnyOwner struct{ lang.Files }

// CheckTrusted implements lang.Files.
func (AnyOwner) CheckTrusted(string) error { return nil }

// SiteOptions returns the options of every site that this program reads.
func SiteOptions(version string) lang.Options {
	return lang.Options{Stages: builtin.Stages(), Version: version}
}

// PastOptions returns the options of a site that is not going to run: that of a recording, or one to compare with.
func PastOptions(version string) lang.Options {
	o := SiteOptions(version)
	o.IsPast = true

	return o
}
