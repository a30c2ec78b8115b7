package app

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages/builtin"
)

// LoadedSite is a site that may be of several machines, with what loading it has found.
type LoadedSite struct {
	Site   *lang.Site
	Diags  hcl.Diagnostics
	checks boot.Checks

	Signature string // not required, valid, refused, or not checked because the files were named
}

// Load reads the site and hides the secrets in it: the files of Config, those in the usual places below Root, or those
// inside a recording. Other users may change the files for a recording, as in a checkout: they control no machine.
func (e *Env) Load(w Where, recorded *world.Recording) *LoadedSite {
	l := &LoadedSite{Signature: "not required"}
	o := SiteOptions(e.Version)
	o.Paths = w.Config
	o.Root = w.Root
	o.IsPast = w.IsPast
	if recorded != nil && len(w.Config) == 0 {
		o.IsPast = true
		l.Site, l.Diags = lang.Parse(recorded.Header.Site, o)
		_ = LearnSite(e.Redactor, nil, l.Site)

		return l
	}

	files := w.Files
	switch {
	case w.From != "":
		files = lang.AnyOwner()
	case files == nil:
		files = lang.OS()
		o.Verify = verifier(w.Root)
	}
	signed := o
	isDraft := !w.MustBeSigned && len(w.Config) > 0
	if isDraft {
		o.Verify = nil
	}
	l.Site, l.Diags = lang.Load(files, o)
	_ = LearnSite(e.Redactor, nil, l.Site)
	if isDraft && signed.Verify != nil && !l.Diags.HasErrors() {
		_, diags := lang.Load(files, signed)
		at := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool {
			return origin.CodeOf(d) == fault.SiteSignature && d.Severity == hcl.DiagError
		})
		if at >= 0 {
			l.Diags = append(l.Diags, origin.Warning(
				fault.SiteSignature, hcl.Range{}, "prelet run refuses this site",
				"The image requires a signature (%s), and: %s", signersFile, diags[at].Detail,
			))
		}
	}
	if refused := checkCounter(w.StateDir(), l.Site.Counter); refused != nil {
		l.Diags = append(l.Diags, refused)
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

// maxKnownSites bounds how many sites of recordings are kept.
const maxKnownSites = 16

// siteOf returns the site for a recording, nil for this machine. It loads a site once for all recordings: those of a
// fleet mostly have the same site inside.
func (g *Given) siteOf(e *Env, recorded *world.Recording) *LoadedSite {
	if g.Loaded != nil {
		return g.Loaded
	}

	key := fmt.Sprintf("%q", recorded.Header.Site)
	g.mu.Lock()
	load := g.recorded[key]
	if load == nil {
		load = sync.OnceValue(func() *LoadedSite { return e.Load(g.Where, recorded) })
		if g.recorded == nil || len(g.recorded) >= maxKnownSites {
			g.recorded = map[string]func() *LoadedSite{}
		}
		g.recorded[key] = load
	}
	g.mu.Unlock()

	return load()
}

// SiteOptions returns the options of every site that this program reads.
func SiteOptions(version string) lang.LoadOptions {
	return lang.LoadOptions{Stages: builtin.Stages(), Version: version}
}
