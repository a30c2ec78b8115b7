package commit

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Diagnose returns a failure to write a planned file as a diagnostic with the place of the file in the site. It returns
// nil for other failures.
func Diagnose(p *evaluate.Plan, err error) *hcl.Diagnostic {
	var f *fault.Fault
	if p == nil || !errors.As(err, &f) {
		return nil
	}

	path := f.At.File
	summary, after := "A credential is needed for ", "."
	if path == "" {
		target, ok := generation.OnPath(f)
		if !ok || f.Code != fault.CannotWrite {
			return nil
		}
		path = target.Path
		summary, after = "Cannot write ", ". Nothing was changed."
	}

	at, ok := findRange(p, path)
	if !ok {
		return nil
	}

	return origin.Error(
		f.Code,
		at,
		summary+path,
		"%s",
		strings.TrimSuffix(f.Error(), ".")+after,
	)
}

// findRange returns the place in the site of a planned file; path is that of the file or of a folder above it.
func findRange(p *evaluate.Plan, path string) (hcl.Range, bool) {
	for _, f := range p.Node.Files {
		if f.Path != path && !strings.HasPrefix(f.Path, path+"/") {
			continue
		}

		if at := origin.DecidingRange(f.Origins); at.Filename != "" {
			return at, true
		}
	}

	return hcl.Range{}, false
}
