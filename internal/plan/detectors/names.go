package detectors

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
)

// CheckNames warns of probably misspelt names: of detectors that are not installed, and of label domains that no
// declared detector describes. from is what ReadLocks has asked.
func (locks Locks) CheckNames(s *lang.Site, from tape.Source) hcl.Diagnostics {
	var found reporter
	var installed, domains []string
	if l, ok := from.(interface{ Installed() []string }); ok {
		installed = l.Installed()
	}
	isDeclared := func(name string) bool {
		return s.Detectors[name] != nil
	}
	undeclared := slices.DeleteFunc(slices.Clone(installed), isDeclared)

	areAllDescribed := from != nil
	for _, name := range s.DetectorNames() {
		if d := locks[name].describe; d != nil {
			domains = append(domains, d.LabelDomains...)
			continue
		}
		areAllDescribed = false
		similar := texts.Nearest(name, undeclared)
		if similar == "" || slices.Contains(installed, name) {
			continue
		}
		found.Warn(
			fault.DetectorUnknown, s.Detectors[name].Range,
			fmt.Sprintf("Detector %q is not installed, but %q is", name, similar),
			"Did you mean %q? There is neither a program nor a lock of %q.", similar, name,
		)
	}
	for _, i := range s.Stages {
		found.checkLabelPatterns(i, domains, areAllDescribed)
	}

	return found.Diags
}

// checkLabelPatterns warns of patterns of from_detectors that match no key at all, and of those that match no described
// domain, if all detectors are described.
func (found *reporter) checkLabelPatterns(i *lang.Instance, domains []string, areAllDescribed bool) {
	attr := i.Body.Attributes["from_detectors"]
	if attr == nil {
		return
	}
	list, ok := value.Unwrap(attr.Expr).(*hclsyntax.TupleConsExpr)
	if !ok {
		return
	}
	described := "No detector that the site declares recommends labels."
	if len(domains) > 0 {
		described = "The detectors that the site declares describe: " + strings.Join(domains, ", ") + "."
	}

	for _, e := range list.Exprs {
		pattern, ok := value.LiteralText(e)
		if !ok {
			continue
		}
		if !strings.Contains(pattern, "/") { // no wildcard matches a slash
			found.Warn(
				fault.DetectorUnknown, e.Range(), fmt.Sprintf("from_detectors: %q matches no label", pattern),
				"The key of a label is DOMAIN/NAME, and a pattern is for the whole key. Write %q.", pattern+"/*",
			)
			continue
		}
		if !areAllDescribed || mayMatchDomain(pattern, domains) {
			continue
		}
		found.Warn(
			fault.DetectorUnknown, e.Range(), fmt.Sprintf("from_detectors: %q matches no label", pattern),
			"%s Declare the detector, or correct the pattern.", described,
		)
	}
}

// mayMatchDomain reports whether a pattern of labels may match a label of these domains or of a domain below them.
// One with a wildcard in its domain may match any.
func mayMatchDomain(pattern string, domains []string) bool {
	domain, _, _ := strings.Cut(pattern, "/")
	if strings.ContainsAny(domain, `*?[\`) {
		return len(domains) > 0
	}

	return slices.ContainsFunc(domains, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}
