package boot

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lazy"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// variableAlone matches an expression that is one variable, also in a list or in a text.
var variableAlone = lazy.Regexp(
	`^[\["\s]*(?:\$\{)?\s*var\.([A-Za-z_][\w-]*)(?:\[[^\]]*\]|\.\w+)*\s*\}?[\]",\s]*$`,
)

// placeAtValues moves messages about the value of a variable from its use to the place that gives the value, a vars
// file or the default, and names the source of a value from outside of the site: it is what has to change, mostly in
// another layer than the use.
func placeAtValues(s *lang.Site, tape *world.Tape, ds hcl.Diagnostics) hcl.Diagnostics {
	if len(ds) == 0 {
		return ds
	}

	var entries []world.Entry
	if tape != nil {
		entries = tape.Entries()
	}
	given := map[string]string{}
	for _, e := range entries {
		var q world.VariableReq
		var a world.VariableAns
		isGiven := e.Kind == world.KindVariable && json.Unmarshal([]byte(e.Args), &q) == nil &&
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
	found := variableAlone().FindSubmatch(d.Subject.SliceBytes(s.Sources[d.Subject.Filename]))
	if found == nil {
		return d
	}
	name := string(found[1])
	v := s.Variables[name]
	if v == nil || v.Sensitive {
		return d
	}

	moved := *d
	detail := strings.TrimSuffix(d.Detail, ".")
	value := s.Values[name]
	if value == nil {
		value = v.Default
	}
	switch {
	case given[name] != "":
		moved.Detail = fmt.Sprintf("%s. var.%s has its value from %s.", detail, name, given[name])
	case value != nil:
		at := value.Range()
		moved.Detail = fmt.Sprintf("%s. It is the value of var.%s, used at %s.", detail, name, origin.Place(*d.Subject))
		moved.Subject = &at
		moved.Context = nil
	}

	return &moved
}
