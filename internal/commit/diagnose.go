package commit

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// Diagnose returns a failure to write a planned file as a diagnostic with the place of the file in the site. It returns
// nil for other failures.
func Diagnose(p *boot.Plan, err error) *hcl.Diagnostic {
	var f *fault.Fault

	switch {
	case p == nil || !errors.As(err, &f):
		return nil
	case f.At.File != "":
		if at, ok := findRange(p, f.At.File); ok {
			return origin.Error(
				f.Code,
				at,
				"A credential is needed for "+f.At.File,
				"%s.",
				strings.TrimSuffix(f.Error(), "."),
			)
		}
	case f.Code == fault.CannotWrite:
		target, ok := generation.OnPath(f)
		if !ok {
			return nil
		}

		if at, ok := findRange(p, target.Path); ok {
			return origin.Error(
				fault.CannotWrite, at, "Cannot write "+target.Path, "%s. Nothing was changed.",
				strings.TrimSuffix(f.Error(), "."),
			)
		}
	}

	return nil
}

// findRange returns the place in the site of a planned file; path is that of the file or of a folder above it.
func findRange(p *boot.Plan, path string) (hcl.Range, bool) {
	for _, f := range p.Node.Files {
		if f.Path != path && !strings.HasPrefix(f.Path, path+"/") {
			continue
		}

		for _, o := range f.Origins {
			if o.Range.Filename != "" {
				return o.Range, true
			}
		}
	}

	return hcl.Range{}, false
}
