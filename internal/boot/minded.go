package boot

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// minded judges the finished node by what the kubelet at hand refuses, and by what it swallows. Each finding stands where
// the site set what it is about.
func (r *run) minded(ctx context.Context) {
	s := rules.Subject{Accepts: Accepted(r.accepts)}
	if r.kubelet.Version != nil {
		s.Version = *r.kubelet.Version
	}
	s.Config, s.Part = r.judged()
	for _, f := range r.node.Flags {
		s.Flags = append(s.Flags, rules.Flag{Name: f.Name, Value: f.Value})
	}
	s.Refused = func(cert, key string) (string, bool) { return r.refused(ctx, cert, key) }
	if !r.e.Checking() && s.Config != nil {
		s.Machine = rules.MachineOf(r.facts, r.kubelet)
		s.Machine.Exists = func(p string) (there, told bool) { return r.exists(ctx, p) }
	}
	pointers := slices.Sorted(maps.Keys(r.node.ConfigOrigins))
	for _, f := range rules.Check(s) {
		if d := r.found(f, pointers); d != nil {
			r.diags = append(r.diags, d)
		}
	}
}

// judged is the kubelet's configuration as it will be. Where its base is not at hand (a check without a machine) it is
// what the site sets, each field for itself; nil where nothing is known.
func (r *run) judged() (c *kubelet.Config, part bool) {
	c = kubelet.NewConfig()
	rendered := slices.ContainsFunc(r.node.Files, func(f node.File) bool { return f.Purpose == "kubelet-config" })
	if rendered {
		if err := c.Merge(r.node.Config); err != nil {
			return nil, false
		}
		return c, false
	}
	if !r.e.Checking() {
		return nil, false
	}
	for _, s := range r.node.Settings {
		if s.Delete {
			continue
		}
		if err := c.Set(s.Path, s.Value); err != nil {
			return nil, false // two settings that do not go together: the merge says so
		}
	}
	return c, true
}

// exists says whether the kubelet will find a path: one that this plan writes, or a folder of it, or one that is there.
func (r *run) exists(ctx context.Context, p string) (there, told bool) {
	if slices.ContainsFunc(r.node.Files, func(f node.File) bool {
		return f.Kind != node.Missing && (f.Path == p || strings.HasPrefix(f.Path, strings.TrimSuffix(p, "/")+"/"))
	}) {
		return true, true
	}
	if r.tape == nil {
		return false, false
	}
	a, _, err := world.Exists.Ask(ctx, r.tape, world.ExistsReq{Path: p})
	return a.Exists, err == nil
}

// Accepted is what a binary's help lists, as rules take it; nil where nothing is.
func Accepted(a *world.AcceptsAns) *rules.Accepts {
	if a == nil {
		return nil
	}
	out := &rules.Accepts{Flags: map[string]bool{}, Gates: map[string]known.Gate{}}
	for _, name := range a.Flags {
		out.Flags[name] = false
	}
	for _, name := range a.Deprecated {
		out.Flags[name] = true
	}
	for stage, list := range map[string][]string{"alpha": a.Alpha, "beta": a.Beta} {
		for _, g := range list {
			name, on, _ := strings.Cut(g, "=")
			out.Gates[name] = known.Gate{Stage: stage, On: on == "true"}
		}
	}
	return out
}

// found is a finding as a diagnostic. What the base brings and the kubelet only swallows is no fault of the site. What it
// will not take one day is no news there, and what another version may take no finding; nil then.
func (r *run) found(f rules.Finding, pointers []string) *hcl.Diagnostic {
	var from []origin.Origin
	purpose, what := "kubelet-config", strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
	if f.Flag != "" {
		purpose, what = "kubelet-flags", "--"+f.Flag
		if i := slices.IndexFunc(r.node.Flags, func(x node.Flag) bool { return x.Name == f.Flag }); i >= 0 {
			from = r.node.Flags[i].Origins
		}
	} else {
		from = r.node.ConfigOrigins[owner(pointers, f.Pointer)]
	}
	at, by := r.written(purpose), "the base"
	based := len(from) == 0 || from[0].Kind == origin.Base
	switch {
	case !based:
		at, by = from[0].Range, from[0].Ref
	case f.Flag == "" && !r.holds(f.Pointer):
		by = "nobody: it is the default"
	}
	severity := f.Severity
	switch {
	case based && (f.Does == rules.Later || f.Vague && f.Does == rules.Exits):
		return nil
	case based && f.Does == rules.Swallows && severity == rules.Error:
		severity = rules.Warning
	}
	mk := map[rules.Severity]func(fault.Code, hcl.Range, string, string, ...any) *hcl.Diagnostic{rules.Error: origin.Error, rules.Warning: origin.Warning, rules.Note: origin.Note}[severity]
	summary := map[rules.Does]string{rules.Exits: "The kubelet would not start with " + what, rules.Swallows: "The kubelet would run and not do what " + what + " says", rules.Later: what + " is deprecated"}[f.Does]
	if f.Does == rules.Exits && f.Severity == rules.Note {
		summary = "Not every machine's kubelet would start with " + what
	}
	code := codeOf(f)
	if based && by == "the base" && severity == rules.Error && forGood(code) {
		brought := r.base.ConfigFrom
		if f.Flag != "" {
			brought = r.base.FlagsFrom
		}
		if where, ok := r.server(brought); ok {
			code, at = fault.ClusterUnusable, where
		}
	}
	return mk(code, at, summary, "%s", stages.Sentence(f.Message+" (set by "+by+")", upper(f.Hint)))
}

// holds says whether the configuration has anything at a pointer.
func (r *run) holds(pointer string) bool {
	c := kubelet.NewConfig()
	if c.Merge(r.node.Config) != nil {
		return false
	}
	_, ok := c.Get(pointer)
	return ok
}

// codeOf is the code of a finding: what the machine cannot give, a feature gate, a flag, the configuration.
func codeOf(f rules.Finding) fault.Code {
	switch {
	case f.Does == rules.Later:
		return fault.KubeletDeprecated
	case strings.HasPrefix(f.Rule, "machine-"):
		return fault.KubeletMachine
	case strings.HasPrefix(f.Rule, "gate-"):
		return fault.KubeletGate
	case f.Flag != "":
		return fault.KubeletFlag
	}
	return fault.ConfigInvalid
}

// written is where the site says that a file of the kubelet is written.
func (r *run) written(purpose string) hcl.Range {
	for _, f := range r.node.Files {
		if f.Purpose == purpose && len(f.Origins) > 0 {
			return f.Origins[0].Range
		}
	}
	if i := slices.IndexFunc(r.site.Stages, func(i *site.Instance) bool { return i.Type == "write" }); i >= 0 {
		return r.site.Stages[i].Range
	}
	return hcl.Range{}
}

// owner is the field, of those that stages set (sorted), that a finding at a pointer belongs to: that field, the one
// around it, or the first inside of it; "" if the base has it.
func owner(pointers []string, at string) string {
	for p := at; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if _, ok := slices.BinarySearch(pointers, p); ok {
			return p
		}
	}
	if i, _ := slices.BinarySearch(pointers, at+"/"); i < len(pointers) && strings.HasPrefix(pointers[i], at+"/") {
		return pointers[i]
	}
	return ""
}
