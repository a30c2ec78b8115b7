package app

import (
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/stages/builtin"
)

// loadedSite is a site that may be of several machines, with what loading it has found.
type loadedSite struct {
	once   sync.Once // of a loader for several machines
	site   *lang.Site
	diags  hcl.Diagnostics
	checks boot.Checks
}

// load reads the site: the files of Config, those in the usual places, or those inside the recording.
func (g given) load(version string) (*lang.Site, hcl.Diagnostics) {
	if g.recording != nil && len(g.Config) == 0 {
		return lang.Parse(g.recording.Header.Site, pastOptions(version))
	}
	o := g.layers(version)
	if g.From != "" {
		return lang.Load(anyOwner{lang.OS()}, o)
	}
	isDraft := !g.mustBeSigned && len(g.Config) > 0
	if !isDraft {
		o.Verify = verifier(g.Root)
	}

	s, diags := lang.Load(lang.OS(), o)
	if isDraft && !diags.HasErrors() {
		o.Verify = verifier(g.Root)
		diags = append(diags, warnUnsigned(o)...)
	}
	if refused := checkCounter(g.stateDir(), s.Counter); refused != nil {
		diags = append(diags, refused)
	}

	return s, diags
}

// readSite loads a site and hides the secrets in it.
func (e *Env) readSite(files lang.Files, o lang.Options) (*lang.Site, hcl.Diagnostics) {
	s, diags := lang.Load(files, o)
	learnSite(e.Redactor, nil, s)

	return s, diags
}

// layers returns the options of the site whose layers Config has, or the usual places below Root.
func (w *Where) layers(version string) lang.Options {
	o := siteOptions(version)
	o.Paths = w.Config
	o.Root = w.Root

	return o
}

// anyOwner has the files of a site that does not control this machine, as in a checkout or in a container of CI: other
// users may change them.
type anyOwner struct{ lang.Files }

// CheckTrusted implements lang.Files.
func (anyOwner) CheckTrusted(string) error { return nil }

// siteOptions returns the options of every site that this program reads.
func siteOptions(version string) lang.Options {
	return lang.Options{Stages: builtin.Stages(), Version: version}
}

// pastOptions returns the options of a site that is not going to run: that of a recording, or one to compare with.
func pastOptions(version string) lang.Options {
	o := siteOptions(version)
	o.IsPast = true

	return o
}
