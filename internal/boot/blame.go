package boot

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// isOfContent reports whether an error is about what a base contains. Where a server sent that, it is fixed on the
// server's side, so a node tries again. Whether a file is there or can be read is not about its content.
func isOfContent(c fault.Code) bool {
	switch c {
	case fault.ConfigInvalid, fault.FlagsInvalid, fault.KubeletFlag, fault.KubeletGate, fault.LabelForbidden,
		fault.LabelInvalid, fault.TaintInvalid:
		return true
	}

	return false
}

// blameServer gives errors in a base that a ConfigMap brought the code of the server's data, and the place of the stage
// that fetched it. It changes ds.
func blameServer(s *site.Site, base node.Base, ds hcl.Diagnostics) hcl.Diagnostics {
	for n, d := range ds {
		if d.Severity != hcl.DiagError || !isOfContent(origin.CodeOf(d)) {
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

// findConfigMap returns where the site names the ConfigMap that a text was taken from. It is not ok if something else
// had a part in the text, or if a file of the node was fetched.
func findConfigMap(s *site.Site, from []origin.Origin) (at hcl.Range, ok bool) {
	for _, o := range from {
		if o.Role != origin.Value || o.Kind == origin.Site { // the expression itself, and locals on its way
			continue
		}
		name, isStage := strings.CutPrefix(o.Ref, "stage.")
		if p := strings.SplitN(name, ".", 3); len(p) == 3 { // a default says which output
			name = p[0] + "." + p[1]
		}
		i := s.Stage(name)
		if !isStage || i == nil || i.Type != "fetch-config" || i.Body.Attributes["config_map"] == nil {
			return hcl.Range{}, false
		}
		at, ok = i.Body.Attributes["config_map"].Expr.Range(), true
	}

	return at, ok
}
