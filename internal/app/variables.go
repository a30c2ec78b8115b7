package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
)

// ReadVariables returns the variables of the command line, by name.
func (w *Where) ReadVariables() (map[string]probe.Given, error) {
	out := map[string]probe.Given{}
	for _, path := range w.VarFiles {
		text, err := userfile.ReadInput(path, userfile.MaxBytes)
		if err != nil {
			return nil, fault.Usage.Errorf("--var-file %s: %s", path, err)
		}
		values, err := lang.ParseVarsFile(path, text)
		if err != nil {
			return nil, fault.Usage.Errorf("--var-file %s", err)
		}
		for name, value := range values {
			out[name] = probe.Given{
				Text:   value,
				Source: "--var-file " + path,
				IsFile: true,
			}
		}
	}
	for _, v := range w.Variables {
		name, value, _ := strings.Cut(v, "=")
		out[name] = probe.Given{Text: value, Source: "--var"}
	}
	return out, nil
}

// checkVariables adds an error for each variable of the command line that the site does not declare: a typing error
// would have no effect.
func checkVariables(diags hcl.Diagnostics, given map[string]probe.Given, s *lang.Site) hcl.Diagnostics {
	known := slices.Sorted(maps.Keys(s.Variables))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if s.Variables[name] == nil {
			diags = append(diags, origin.Error(
				fault.VariableUnknown,
				hcl.Range{},
				fmt.Sprintf("Unknown variable %q", name),
				"%s names it, and the site does not declare it. %s",
				given[name].Source,
				schema.Suggest(name, known),
			))
		}
	}
	return diags
}

// LearnSite hides what in a site is evidently a secret, and redacts the values of its sensitive variables that come
// from files.
func LearnSite(r *value.Redactor, given map[string]probe.Given, s *lang.Site) {
	for _, text := range s.Secrets {
		r.Hide(text)
	}
	for name, v := range given {
		d := s.Variables[name]
		if d != nil && d.Sensitive && v.IsFile {
			r.Add([]byte(v.Text))
		}
	}
}
