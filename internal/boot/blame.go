package boot

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/stages"
)

// isContentError reports whether an error is about the content of a base. If a server sent that content, it is
// fixed on the server's side, so a node tries again. A file that is missing or unreadable is not a content error.
func isContentError(c fault.Code) bool {
	switch c {
	case fault.ConfigInvalid, fault.FlagsInvalid, fault.KubeletFlag, fault.KubeletGate, fault.LabelForbidden,
		fault.LabelInvalid, fault.TaintInvalid:
		return true
	}

	return false
}

// blameServer gives errors in a base from a ConfigMap the code of the server's data, and the place of the stage
// that fetched it. It changes ds.
func blameServer(s *lang.Site, base node.Base, ds hcl.Diagnostics) hcl.Diagnostics {
	for n, d := range ds {
		if d.Severity != hcl.DiagError || !isContentError(origin.CodeOf(d)) {
			continue
		}

		from := base.FlagsFrom
		if origin.CodeOf(d) == fault.ConfigInvalid {
			from = base.ConfigFrom
		}
		if at, ok := findConfigMap(s, from); ok {
			ds[n] = origin.Error(fault.ClusterUnusable, at, d.Summary, "%s", d.Detail)
		}
	}

	return ds
}

// findConfigMap returns where the site names the ConfigMap that a text comes from. It is not ok if a part of the
// text has another source, or if the stage fetched a file of the node.
func findConfigMap(s *lang.Site, from []origin.Origin) (at hcl.Range, ok bool) {
	for _, o := range from {
		if o.Role != origin.Value || o.Kind == origin.Site { // the expression itself, and locals in it
			continue
		}
		name, isStage := strings.CutPrefix(o.Ref, "stage.")
		if p := strings.SplitN(name, ".", 3); len(p) == 3 { // the origin of a default names an output
			name = p[0] + "." + p[1]
		}
		i := s.Stage(name)
		if !isStage || i == nil || i.Type != stages.FetchConfig || i.Body.Attributes["config_map"] == nil {
			return hcl.Range{}, false
		}
		at = i.Body.Attributes["config_map"].Expr.Range()
		ok = true
	}

	return at, ok
}
