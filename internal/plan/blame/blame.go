// Package blame finds the place of the site for a message: the source of a value, of a ConfigMap or of a file.
package blame

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// IsContentError reports whether an error is about the content of a base. If a server sent that content, it is
// fixed on the server's side, so a node tries again. A file that is missing or unreadable is not a content error.
func IsContentError(c fault.Code) bool {
	switch c {
	case fault.ConfigInvalid, fault.FlagsInvalid, fault.KubeletFlag, fault.KubeletGate, fault.LabelForbidden,
		fault.LabelInvalid, fault.TaintInvalid:
		return true
	}

	return false
}

// Server gives errors in a base from a ConfigMap the code of the server's data, and the place of the stage
// that fetched it. It changes ds.
func Server(s *lang.Site, base desired.Base, ds hcl.Diagnostics) hcl.Diagnostics {
	for n, d := range ds {
		if d.Severity != hcl.DiagError || !IsContentError(origin.CodeOf(d)) {
			continue
		}

		from := base.FlagsFrom
		if origin.CodeOf(d) == fault.ConfigInvalid {
			from = base.ConfigFrom
		}
		if at, ok := FindConfigMap(s, from); ok {
			ds[n] = origin.Error(fault.ClusterUnusable, at, d.Summary, "%s", d.Detail)
		}
	}

	return ds
}

// FindConfigMap returns where the site names the ConfigMap that a text comes from. It is not ok if a part of the
// text has another source, or if the stage fetched a file of the node.
func FindConfigMap(s *lang.Site, from []origin.Origin) (at hcl.Range, ok bool) {
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

// FindWriter returns the place of the write stage; the zero range if the site has none.
func FindWriter(s *lang.Site) hcl.Range {
	if all := s.OfType(stages.Write); len(all) > 0 {
		return all[0].Range
	}

	return hcl.Range{}
}

// variableAlone matches an expression that is one variable, also in a list or in a text.
var variableAlone = texts.LazyRegexp(
	`^[\["\s]*(?:\$\{)?\s*var\.([A-Za-z_][\w-]*)(?:\[[^\]]*\]|\.\w+)*\s*\}?[\]",\s]*$`,
)

// PlaceAtValues moves messages about the value of a variable from its use to the place that gives the value, a vars
// file or the default, and names the source of a value from outside of the site: the value has to change, mostly in
// another layer than the use.
func PlaceAtValues(s *lang.Site, answers *tape.Tape, ds hcl.Diagnostics) hcl.Diagnostics {
	if len(ds) == 0 {
		return ds
	}

	var entries []tape.Entry
	if answers != nil {
		entries = answers.Entries()
	}
	given := map[string]string{}
	for _, e := range entries {
		var q tape.VariableReq
		var a tape.VariableAns
		isGiven := e.Kind == tape.KindVariable && json.Unmarshal([]byte(e.Args), &q) == nil &&
			json.Unmarshal(e.Answer.Value, &a) == nil
		if isGiven {
			given[q.Name] = a.Source
		}
	}

	out := make(hcl.Diagnostics, 0, len(ds))
	for _, d := range ds {
		out = append(out, placeAtValue(s, given, d))
	}

	return out
}

func placeAtValue(s *lang.Site, given map[string]string, d *hcl.Diagnostic) *hcl.Diagnostic {
	isOfSite := origin.IsNote(d) || origin.CodeOf(d) == fault.Reference // about the expression, not about its value
	if isOfSite || d.Subject == nil || !d.Subject.CanSliceBytes(s.Sources[d.Subject.Filename]) {
		return d
	}
	written := d.Subject.SliceBytes(s.Sources[d.Subject.Filename])
	if name, isLocal := strings.CutPrefix(string(written), "local."); isLocal && s.Locals[name] != nil {
		return placeAtLocal(d, name, s.Locals[name].Expr)
	}
	found := variableAlone().FindSubmatch(written)
	if found == nil {
		return d
	}
	name := string(found[1])
	v := s.Variables[name]
	if v == nil || v.Sensitive {
		return d
	}

	moved := *d
	if x, _ := d.Extra.(origin.Extra); x.IsOfUse && v.Type != cty.DynamicPseudoType {
		moved.Detail = stages.Sentence(d.Detail, explainUse(v, strings.HasPrefix(d.Detail, "A bool")))
		return &moved
	}
	value := s.Values[name]
	if value == nil {
		value = v.Default
	}
	switch {
	case given[name] != "":
		moved.Detail = stages.Sentence(d.Detail, fmt.Sprintf("var.%s has its value from %s", name, given[name]))
	case value != nil:
		at := value.Range()
		moved.Detail = stages.Sentence(d.Detail,
			fmt.Sprintf("It is the value of var.%s, used at %s", name, origin.Place(*d.Subject)))
		moved.Subject = &at
		moved.Context = nil
	}

	return &moved
}

// explainUse explains the use of a variable whose type does not fit.
func explainUse(v *lang.Variable, isCondition bool) string {
	next := ""
	if isCondition {
		next = fmt.Sprintf(", as in var.%s == \"VALUE\"", v.Name)
	}

	return fmt.Sprintf("var.%s is %s, declared at %s: change its type, or this expression%s",
		v.Name, schema.Article(v.Type), origin.Place(v.Range), next)
}

// placeAtLocal moves a message about the value of a local to the local, if its text or number is written there.
func placeAtLocal(d *hcl.Diagnostic, name string, x hclsyntax.Expression) *hcl.Diagnostic {
	if v, diags := x.Value(nil); diags.HasErrors() || v.Type() != cty.String && v.Type() != cty.Number {
		return d
	}

	moved := *d
	at := x.Range()
	moved.Detail = stages.Sentence(d.Detail,
		fmt.Sprintf("It is the value of local.%s, used at %s", name, origin.Place(*d.Subject)))
	moved.Subject = &at
	moved.Context = nil

	return &moved
}
