package lab

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
)

// Explained is a failure with its diagnostics: of a site, or of a text of the command line.
type Explained struct {
	Err      error
	Messages hcl.Diagnostics
	Sources  map[string][]byte // texts that Messages have places in, by name; nil where they have none
}

// Error is the failure in one line.
func (e *Explained) Error() string { return e.Err.Error() }

// Unwrap returns the failure as it happened.
func (e *Explained) Unwrap() error { return e.Err }

// RefuseSite returns the failure of a command that has no result because of errors in a site.
func RefuseSite(s *lang.Site, diags hcl.Diagnostics) error {
	return &Explained{
		Err:      origin.Code(diags).Errorf("the site has errors"),
		Messages: printer.Sorted(diags),
		Sources:  s.Sources,
	}
}
