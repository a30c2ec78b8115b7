package machine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// LearnSite hides what in a site is evidently a secret, and redacts the values of its sensitive variables that come
// from files. It returns an error for each variable of the command line that the site does not declare: a typing error
// would have no effect.
func LearnSite(r *secret.Redactor, given map[string]probe.Given, s *lang.Site) (unknown hcl.Diagnostics) {
	for _, text := range s.Secrets {
		r.Hide(text)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		v := given[name]
		d := s.Variables[name]
		switch {
		case d == nil:
			unknown = append(unknown, origin.Error(
				fault.VariableUnknown,
				hcl.Range{},
				fmt.Sprintf("Unknown variable %q", name),
				"%s names it, and the site does not declare it. %s",
				v.Source,
				schema.Suggest(name, slices.Sorted(maps.Keys(s.Variables))),
			))
		case d.Sensitive && v.IsFile:
			r.Add([]byte(v.Text))
		}
	}

	return unknown
}
