package boot

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
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
	accepts  *world.AcceptsAns // nil: the binary was not asked, or did not answer

	isOlder bool        // the recording is older than the question what the binary accepts
	missing *[]string   // the questions that a recording was never asked, as they are met
	assumed *assumption // nil: what has no answer is unknown
}

// assumption is what an answer that a recording does not have may have been, at the worst.
type assumption struct {
	exists bool // each path; all certificates are refused, and no flag is accepted
}

// judge reports what the installed kubelet rejects of the finished node, and what it silently ignores. Each finding
// is at the place where the site set what it is about.
//
// Inputs: the finished node, the kubelet's version and what its binary accepts, facts; through the tape, whether
// files exist and certificates can be used. Result: findings only. Fails where the kubelet would not start. A question
// that a recording was never asked is an unknown where one of its answers is a failure.
func judge(ctx context.Context, j judgement) (found Findings) {
	j.missing = new([]string)
	found.report(j.check(ctx)...)
	found.report(j.checkStub(ctx)...)
	if len(*j.missing) == 0 && !j.isOlder {
		return found
	}

	for _, exists := range []bool{true, false} {
		worst := j
		worst.missing, worst.assumed = new([]string), &assumption{exists}
		for _, d := range worst.check(ctx) {
			isReported := func(o *hcl.Diagnostic) bool { return isSamePlace(d, o) }
			if d.Severity != hcl.DiagError || slices.ContainsFunc(found.Diags, isReported) {
				continue
			}
			unknown := newUnknowns(*worst.missing, partRendered)
			found.Unknown = found.Unknown.join(unknown)
			found.report(origin.NotRead(readRange(d), "whether the kubelet starts", unknown[partRendered]))
		}
	}

	return found
}

// checkStub warns of a resolvConf that leads to systemd-resolved's stub: it listens on a loopback address of the node,
// which is another one inside of a pod. A recording that is older than the target of a link has none.
func (j judgement) checkStub(ctx context.Context) hcl.Diagnostics {
	file, _ := j.node.Config["resolvConf"].(string)
	if file == "" || j.tape == nil {
		return nil
	}

	const stub = "stub-resolv.conf"
	a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: file})
	if path.Base(file) != stub && (err != nil || path.Base(a.Target) != stub) {
		return nil
	}

	var at hcl.Range
	for _, o := range j.node.ConfigOrigins["/resolvConf"] {
		if o.Range.Filename != "" {
			at = o.Range
		}
	}

	return hcl.Diagnostics{origin.Warning(fault.ConfigInvalid, at, "Pods would ask systemd-resolved's stub",
		"resolvConf is %s, which is %s: its server is 127.0.0.53, and inside of a pod nobody listens there, so that "+
			"CoreDNS and pods with the node's DNS resolve nothing. Write /run/systemd/resolve/resolv.conf, as kubeadm "+
			"does, or leave resolvConf out.", file, stub)}
}

// isSamePlace reports whether two diagnostics are of one place, and are both errors or both about what is unread.
func isSamePlace(d, o *hcl.Diagnostic) bool {
	return readRange(d) == readRange(o) && (o.Severity == hcl.DiagError || origin.CodeOf(o) == fault.Unread)
}

// check applies the rules.
func (j judgement) check(ctx context.Context) (out hcl.Diagnostics) {
	pointers := slices.Sorted(maps.Keys(j.node.ConfigOrigins))
	for _, f := range rules.Check(j.makeSubject(ctx)) {
		if d := j.diagnose(f, pointers); d != nil {
			out = append(out, d)
		}
	}

	return out
}

// noteMissing reports whether a recording was never asked a question, and remembers the question then.
func (j judgement) noteMissing(question string, a world.Answer) bool {
	if a.Code() != fault.Unread {
		return false
	}
	*j.missing = append(*j.missing, question)

	return true
}

// makeSubject returns what the rules look at. In a check nothing is known of the machine.
func (j judgement) makeSubject(ctx context.Context) rules.Subject {
	s := rules.Subject{Accepts: Accepted(j.accepts)}
	if j.basis.kubelet.Version != nil {
		s.Version = *j.basis.kubelet.Version
	}
	// A recording that is older than the question has an answer all the same, if the version is one of the tables.
	if j.isOlder && j.assumed != nil && !rules.Knows(s.Version) {
		s.Accepts = &rules.Accepts{}
		*j.missing = append(*j.missing, "what the kubelet accepts")
	}
	s.Config, s.Part, s.Unset = j.readConfig()
	for _, f := range j.node.Flags {
		s.Flags = append(s.Flags, rules.Flag{Name: f.Name, Value: f.Value})
	}
	s.DropInVariable = j.findDropInVariable(ctx)
	isConfig := func(f node.File) bool { return f.Purpose == "kubelet-config" }
	if i := slices.IndexFunc(j.node.Files, isConfig); i >= 0 && !mergesDropIns(j.node) {
		s.Dir = path.Dir(j.node.Files[i].Path)
	}
	s.Refused = func(cert, key string) (string, bool) { return j.refuseServing(ctx, cert, key) }
	if !j.checking && s.Config != nil {
		s.Machine = rules.MachineOf(j.basis.facts, j.basis.kubelet)
		s.Machine.Exists = func(p string) (exists, isKnown bool) { return j.pathExists(ctx, p) }
	}

	return s
}

// findDropInVariable reports whether the variable that kubelets of 1.28 and 1.29 want for --config-dir is set: in a
// planned file, a drop-in of the unit or its flags, in its unit, or in kubeadm's file. nil: nobody knows, as where the unit
// reads another file too.
func (j judgement) findDropInVariable(ctx context.Context) *bool {
	isSet, isWhole := false, j.basis.start != nil
	setting := regexp.MustCompile(`(?m)^[^#;\n]*\b` + rules.DropInVariable + `=["']?[^\s"']`)
	planned := []string{"/run/prelet/kubelet.env"}
	for _, f := range j.node.Files {
		isSet = isSet || setting.MatchString(f.Text.Template())
		planned = append(planned, f.Path)
	}
	if s := j.basis.start; s != nil {
		isSet = isSet || slices.Contains(s.Sets, rules.DropInVariable)
		for _, file := range s.Files {
			if slices.Contains(planned, file) {
				continue
			}
			if file != kubelet.KubeadmDeb().KubeadmFlagsFile { // others may hold secrets
				isWhole = false
				continue
			}
			a, _, err := world.Original.Ask(ctx, j.tape, world.OriginalReq{Path: file})
			isWhole = isWhole && err == nil
			isSet = isSet || setting.MatchString(a.Text)
		}
	}
	if !isSet && !isWhole {
		return nil
	}

	return &isSet
}

// mergesDropIns reports whether the kubelet merges a folder of drop-ins, whose relative paths begin elsewhere.
func mergesDropIns(n node.Node) bool {
	return slices.ContainsFunc(n.Flags, func(f node.Flag) bool { return f.Name == "config-dir" })
}

// readConfig returns the kubelet's configuration as it will be; nil where nothing is known. Where its base is missing
// (a check without a machine) it has only what the site sets: isPart. unset are the fields that the site removes then.
func (j judgement) readConfig() (c *kubelet.Config, isPart bool, unset []string) {
	c = kubelet.NewConfig()
	isRendered := slices.ContainsFunc(j.node.Files, func(f node.File) bool { return f.Purpose == "kubelet-config" })
	if isRendered {
		if err := c.Merge(j.node.Config); err != nil {
			return nil, false, nil
		}
		return c, false, nil
	}
	if !j.checking {
		return nil, false, nil
	}

	for _, s := range j.node.Settings {
		if s.Delete {
			unset = append(unset, kubelet.Pointer(s.Path...))
			continue
		}
		if err := c.Set(s.Path, s.Value); err != nil {
			return nil, false, nil // two settings contradict each other: the merge has reported it
		}
	}

	return c, true, unset
}

// pathExists reports whether the kubelet will find a path: one that this plan writes, a folder of one, or one that is
// on the disk.
func (j judgement) pathExists(ctx context.Context, p string) (exists, isKnown bool) {
	isWritten := func(f node.File) bool {
		return f.Kind != node.Missing && (f.Path == p || strings.HasPrefix(f.Path, strings.TrimSuffix(p, "/")+"/"))
	}
	if slices.ContainsFunc(j.node.Files, isWritten) {
		return true, true
	}
	if j.tape == nil {
		return false, false
	}

	return j.askExists(ctx, p)
}

// askExists asks whether something is at a path of the disk.
func (j judgement) askExists(ctx context.Context, p string) (exists, isKnown bool) {
	a, ans, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: p})
	if j.noteMissing("whether "+p+" exists", ans) && j.assumed != nil {
		return j.assumed.exists, true
	}

	return a.Exists, err == nil
}

// Accepted returns what a binary's help lists, in the form that rules take; nil where it was not asked.
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

// setter is who set what a finding is about.
type setter struct {
	at        hcl.Range
	name      string // for the message
	isBase    bool   // no stage set it
	isDefault bool   // the base does not have it either
	isAssumed bool   // nobody knows whether the kubelet gets it
}

// diagnose returns a finding as a diagnostic; nil where it does not matter: what a later version will reject of the
// base, and what some version might reject of it.
func (j judgement) diagnose(f rules.Finding, pointers []string) *hcl.Diagnostic {
	set := j.findSetter(f, pointers)
	if set.isBase && (f.Does == rules.Later || f.Vague && f.Does == rules.Exits) {
		return nil
	}

	severity := f.Severity
	if set.isBase && f.Does == rules.Swallows && severity == rules.Error {
		severity = rules.Warning // the site did not set it
	}
	if set.isAssumed && severity == rules.Error {
		severity = rules.Warning
	}
	code, at := chooseCode(f), set.at
	if set.isBase && !set.isDefault && severity == rules.Error && isOfContent(code) {
		if where, ok := j.findServer(f); ok {
			code, at = fault.ClusterUnusable, where
		}
	}
	detail := stages.Sentence(f.Message+" (set by "+set.name+")", capitalize(f.Hint))

	return chooseConstructor(severity)(code, at, summarize(f), "%s", detail)
}

// findSetter returns the stage that set what a finding is about, or the base at the place where the site writes the
// file.
func (j judgement) findSetter(f rules.Finding, pointers []string) setter {
	purpose := "kubelet-config"
	var from []origin.Origin
	if f.Flag != "" {
		purpose = "kubelet-flags"
		if i := slices.IndexFunc(j.node.Flags, func(x node.Flag) bool { return x.Name == f.Flag }); i >= 0 {
			from = j.node.Flags[i].Origins
		}
	} else {
		from = j.node.ConfigOrigins[findOwner(pointers, f.Pointer)]
	}

	switch {
	case len(from) > 0 && from[0].Kind != origin.Base:
		return setter{at: from[0].Range, name: from[0].Ref}
	case f.Flag == "" && !j.hasField(f.Pointer):
		return setter{at: j.findFileRange(purpose), name: "nobody: it is the default", isBase: true, isDefault: true}
	}

	set := setter{at: j.findFileRange(purpose), name: "the base", isBase: true}
	if i := slices.IndexFunc(j.node.Flags, func(x node.Flag) bool { return x.Inherited && x.Name == f.Flag }); i >= 0 {
		set.name, set.isAssumed = from[0].Ref, j.node.Flags[i].Assumed || writesUnit(j.node)
		if set.isAssumed {
			set.name += "; whether the kubelet gets it is not known"
		}
	}

	return set
}

// writesUnit reports whether a node's files are of the kubelet's unit, which is another one then than the one that was
// asked for.
func writesUnit(n node.Node) bool {
	unit := "/" + kubeletUnitOf(n)

	return slices.ContainsFunc(n.Files, func(f node.File) bool {
		return strings.HasSuffix(f.Path, unit) || strings.Contains(f.Path, unit+".d/")
	})
}

// findServer returns where the site names the ConfigMap that brought what a finding is about; not ok: none brought it.
func (j judgement) findServer(f rules.Finding) (at hcl.Range, ok bool) {
	if f.Flag != "" {
		return findConfigMap(j.site, j.basis.base.FlagsFrom)
	}

	return findConfigMap(j.site, j.basis.base.ConfigFrom)
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

// summarize returns the first line of a finding's message.
func summarize(f rules.Finding) string {
	what := strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
	if f.Flag != "" {
		what = "--" + f.Flag
	}

	switch {
	case f.Does == rules.Exits && f.Severity == rules.Note:
		return "Not every machine's kubelet would start with " + what
	case f.Does == rules.Exits:
		return "The kubelet would not start with " + what
	case f.Does == rules.Differs:
		return what + " means something else than before"
	case f.Does == rules.Swallows && strings.HasPrefix(f.Message, "unknown field"):
		return "The kubelet would silently ignore " + what
	case f.Does == rules.Swallows:
		return "The kubelet would run and not do what " + what + " says"
	}

	return what + " is deprecated"
}

// hasField reports whether the configuration has a value at a pointer.
func (j judgement) hasField(pointer string) bool {
	c := kubelet.NewConfig()
	if c.Merge(j.node.Config) != nil {
		return false
	}
	_, ok := c.Get(pointer)

	return ok
}

// chooseCode returns the code of a finding by what it is about: the machine, a feature gate, a flag, or the
// configuration.
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

// findFileRange returns where the site declares the kubelet's file of that purpose; the write stage for one that is not
// rendered.
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

// findOwner returns the field, of those that stages set (sorted), that a finding at a pointer belongs to: that field,
// the field around it, or the first one inside of it; "" if the base has it.
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
