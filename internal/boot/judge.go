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

// judgement is what the finished node is judged by.
type judgement struct {
	site     *site.Site
	tape     *world.Tape // nil in a check
	checking bool
	node     node.Node
	basis    basis
	accepts  *world.AcceptsAns
}

// judge says what the kubelet at hand refuses of the finished node, and what it swallows. Each finding stands where the
// site set what it is about.
func judge(ctx context.Context, j judgement) (found Findings) {
	s := rules.Subject{Accepts: Accepted(j.accepts)}
	if j.basis.kubelet.Version != nil {
		s.Version = *j.basis.kubelet.Version
	}
	s.Config, s.Part = j.readConfig()
	for _, f := range j.node.Flags {
		s.Flags = append(s.Flags, rules.Flag{Name: f.Name, Value: f.Value})
	}
	s.Refused = func(cert, key string) (string, bool) { return j.refuseServing(ctx, cert, key) }
	if !j.checking && s.Config != nil {
		s.Machine = rules.MachineOf(j.basis.facts, j.basis.kubelet)
		s.Machine.Exists = func(p string) (there, told bool) { return j.pathExists(ctx, p) }
	}
	pointers := slices.Sorted(maps.Keys(j.node.ConfigOrigins))
	for _, f := range rules.Check(s) {
		if d := j.diagnose(f, pointers); d != nil {
			found.report(d)
		}
	}

	return found
}

// config is the kubelet's configuration as it will be. Where its base is not at hand (a check without a machine) it is
// what the site sets, each field for itself; nil where nothing is known.
func (j judgement) readConfig() (c *kubelet.Config, part bool) {
	c = kubelet.NewConfig()
	rendered := slices.ContainsFunc(j.node.Files, func(f node.File) bool { return f.Purpose == "kubelet-config" })
	if rendered {
		if err := c.Merge(j.node.Config); err != nil {
			return nil, false
		}
		return c, false
	}
	if !j.checking {
		return nil, false
	}
	for _, s := range j.node.Settings {
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
func (j judgement) pathExists(ctx context.Context, p string) (there, told bool) {
	if slices.ContainsFunc(j.node.Files, func(f node.File) bool {
		return f.Kind != node.Missing && (f.Path == p || strings.HasPrefix(f.Path, strings.TrimSuffix(p, "/")+"/"))
	}) {
		return true, true
	}
	if j.tape == nil {
		return false, false
	}
	a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: p})
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

// found is a finding as a diagnostic. What the base brings and the kubelet only swallows is no fault of the site. What
// it will not take one day is no news there, and what another version may take no finding; nil then.
func (j judgement) diagnose(f rules.Finding, pointers []string) *hcl.Diagnostic {
	var from []origin.Origin
	purpose, what := "kubelet-config", strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
	if f.Flag != "" {
		purpose, what = "kubelet-flags", "--"+f.Flag
		if i := slices.IndexFunc(j.node.Flags, func(x node.Flag) bool { return x.Name == f.Flag }); i >= 0 {
			from = j.node.Flags[i].Origins
		}
	} else {
		from = j.node.ConfigOrigins[findOwner(pointers, f.Pointer)]
	}
	at, by := j.findFileRange(purpose), "the base"
	based := len(from) == 0 || from[0].Kind == origin.Base
	switch {
	case !based:
		at, by = from[0].Range, from[0].Ref
	case f.Flag == "" && !j.hasField(f.Pointer):
		by = "nobody: it is the default"
	}
	severity := f.Severity
	switch {
	case based && (f.Does == rules.Later || f.Vague && f.Does == rules.Exits):
		return nil
	case based && f.Does == rules.Swallows && severity == rules.Error:
		severity = rules.Warning
	}
	code := chooseCode(f)
	if based && by == "the base" && severity == rules.Error && isPermanent(code) {
		brought := j.basis.base.ConfigFrom
		if f.Flag != "" {
			brought = j.basis.base.FlagsFrom
		}
		if where, ok := findConfigMap(j.site, brought); ok {
			code, at = fault.ClusterUnusable, where
		}
	}
	return chooseConstructor(severity)(code, at, summarize(f, what), "%s", stages.Sentence(f.Message+" (set by "+by+")", capitalize(f.Hint)))
}

func chooseConstructor(s rules.Severity) func(fault.Code, hcl.Range, string, string, ...any) *hcl.Diagnostic {
	switch s {
	case rules.Error:
		return origin.Error
	case rules.Warning:
		return origin.Warning
	}

	return origin.Note
}

func summarize(f rules.Finding, what string) string {
	switch {
	case f.Does == rules.Exits && f.Severity == rules.Note:
		return "Not every machine's kubelet would start with " + what
	case f.Does == rules.Exits:
		return "The kubelet would not start with " + what
	case f.Does == rules.Swallows:
		return "The kubelet would run and not do what " + what + " says"
	}

	return what + " is deprecated"
}

// holds says whether the configuration has anything at a pointer.
func (j judgement) hasField(pointer string) bool {
	c := kubelet.NewConfig()
	if c.Merge(j.node.Config) != nil {
		return false
	}
	_, ok := c.Get(pointer)
	return ok
}

// codeOf is the code of a finding: what the machine cannot give, a feature gate, a flag, the configuration.
func chooseCode(f rules.Finding) fault.Code {
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
func (j judgement) findFileRange(purpose string) hcl.Range {
	for _, f := range j.node.Files {
		if f.Purpose == purpose && len(f.Origins) > 0 {
			return f.Origins[0].Range
		}
	}
	if i := slices.IndexFunc(j.site.Stages, func(i *site.Instance) bool { return i.Type == "write" }); i >= 0 {
		return j.site.Stages[i].Range
	}
	return hcl.Range{}
}

// owner is the field, of those that stages set (sorted), that a finding at a pointer belongs to: that field, the one
// around it, or the first inside of it; "" if the base has it.
func findOwner(pointers []string, at string) string {
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
