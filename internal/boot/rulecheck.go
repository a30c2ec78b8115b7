package boot

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot/effective"
	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// ruleCheck is the input of checkRules.
type ruleCheck struct {
	site             *lang.Site
	tape             *world.Tape // nil in a check
	binary           *world.Tape // asks the kubelet's binary; nil: it is not asked
	isAskedElsewhere bool        // it is asked on other sample machines, whose base is known
	checking         bool
	node             node.Node
	basis            stages.Inputs
	accepts          *world.AcceptsAns     // nil: the binary was not asked, or did not answer
	advises          bool                  // see Input.Advises
	files            *effective.Files      // nil: a stage has reported why they cannot be merged
	dryRun           *world.DryRunAns      // nil: the kubelet's binary was not asked, or did not answer
	finished         func(FinishedKubelet) // see Input.Finished
	pointers         []string              // of the fields that stages set, sorted
	flags            *kubelet.Flags        // of the whole command line, see listWords

	effective rules.Subject // the kubelet with the configuration that it works with, see makeEffective
	*Findings
}

// checkRules reports the flags and fields of the finished node that the installed kubelet rejects or silently ignores.
// Each finding is at the place where the site sets the rejected item.
//
// Inputs: the finished node, the kubelet's version and what its binary accepts, facts; through the tape, whether
// files exist and certificates can be used. Result: findings only. Fails where the kubelet would not start. Items that
// a recording was never asked for are not checked.
func checkRules(ctx context.Context, j ruleCheck) (found Findings) {
	j.pointers = sortKeys(j.node.ConfigOrigins)
	j.Findings = &found
	j.checkSizes()
	if j.files == nil {
		return found
	}
	j.flags = kubelet.FlagsOf(listWords(j.node))
	j.check(ctx)
	j.checkStray()
	j.warnHidden()
	j.checkDropIns()
	j.checkStub(ctx)
	watchdog := time.Duration(0)
	if start := j.basis.Start; start != nil {
		watchdog = time.Duration(start.WatchdogMicros) * time.Microsecond
	}
	version, at := j.basis.Kubelet.KnownVersion(), findWriterRange(j.site)
	j.Report(hostfiles.CheckWatchdog(j.node, j.effective, version, watchdog, at)...)
	j.checkFeatures()
	j.checkHost(ctx)
	j.checkSystemFiles(ctx)

	return found
}

// checkSizes refuses files that are too large to be written, and too many of them: each generation keeps them all.
func (j ruleCheck) checkSizes() {
	const next = "Install large files with the image, or by another program."
	total := 0
	for _, f := range j.node.Files {
		size := len(f.Text.Template())
		total += size
		if size > nodefile.MaxContent {
			j.Error(fault.Limit, f.FindDeclaration(), f.Path+" is too large",
				"It has %d bytes, and a file may have %d. %s", size, nodefile.MaxContent, next)
		}
	}
	if total > 2*nodefile.MaxContent && len(j.Diags) == 0 {
		largest := slices.MaxFunc(j.node.Files, func(a, b node.File) int {
			return cmp.Compare(len(a.Text.Template()), len(b.Text.Template()))
		})
		j.Error(fault.Limit, largest.FindDeclaration(), "The files of this node are too large",
			"All of them have %d bytes, and may have %d. %s is the largest. %s",
			total, 2*nodefile.MaxContent, largest.Path, next)
	}
}

// checkStub warns of a resolvConf that leads to systemd-resolved's stub: it listens on a loopback address of the
// node, which is another address inside a pod. A recording that is older than the target of a link has no target.
func (j ruleCheck) checkStub(ctx context.Context) {
	const stub = "stub-resolv.conf"
	value, _ := j.files.Merged.Config.Get("/resolvConf")
	file, _ := value.(string)
	if file == "" || j.tape == nil {
		return
	}
	a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: file})
	if path.Base(file) != stub && (err != nil || path.Base(a.Target) != stub) {
		return
	}

	j.Warn(
		fault.ConfigInvalid, origin.LastRange(j.node.ConfigOrigins["/resolvConf"]),
		"Pods would use systemd-resolved's stub",
		"resolvConf is %s, which is %s: its server is 127.0.0.53, "+
			"and nothing listens on that address inside a pod, "+
			"so CoreDNS and pods with the node's DNS cannot resolve names. "+
			"Write /run/systemd/resolve/resolv.conf, as kubeadm does, or leave resolvConf out.",
		file, stub,
	)
}

// checkDropIns reports drop-ins of others with which the kubelet does not start.
func (j ruleCheck) checkDropIns() {
	for _, d := range j.files.DropIns {
		if d.Refusal != nil {
			j.Error(
				fault.ConfigInvalid, j.findFileRange(configPurpose), "The kubelet would not start with "+d.Path,
				"%s", stages.Sentence(d.Refusal.Error(), "Fix the file, or remove it"),
			)
		}
	}
}

// check applies the rules.
func (j ruleCheck) check(ctx context.Context) {
	kinds := map[violationKind]int{}
	var rest []rules.Violation // the first one of each kind that is not printed
	subject := j.makeSubject(ctx)
	var newer []string
	result := rules.CheckAll(subject)
	for _, f := range j.applyVerdict(result.Violations) {
		if f.Newer {
			newer = append(newer, nameItem(f)+": "+f.Message+" (set by "+j.findSetter(f).name+")")
			continue
		}
		kind := kindOf(f)
		kinds[kind]++
		if n := kinds[kind]; n > manyViolations && !j.advises {
			if n == manyViolations+1 {
				rest = append(rest, f)
			}
			continue
		}
		j.diagnose(f)
	}

	for _, f := range rest {
		kind := kindOf(f)
		f.Message = fmt.Sprintf("%d more like these", kinds[kind]-manyViolations)
		f.Hint = ""
		f.Member = ""
		if f.Flag == "" {
			f.Pointer = kind.parent
		}
		j.diagnose(f)
	}

	j.describeNewer(subject.Version, newer)
	j.describeUnchecked(result.Unchecked)
}

// uncheckedSummary is the first line of the note about fields that are not checked without the base.
const uncheckedSummary = "Some fields are not checked without the cluster's kubelet configuration"

// describeUnchecked reports the site's fields whose check depends on fields of a base that is not known.
func (j ruleCheck) describeUnchecked(unchecked []rules.Violation) {
	var items []string
	for _, f := range unchecked {
		if !j.findSetter(f).isBase {
			items = append(items, nameItem(f)+": "+f.Message)
		}
	}
	if len(items) == 0 {
		return
	}

	j.Note(
		fault.ConfigInvalid, j.findFileRange(configPurpose), uncheckedSummary,
		"Unless that configuration has what they need, the kubelet refuses or ignores them: %s. To check them, give "+
			"the ConfigMaps of the cluster with --objects DIR.", joinSome(items),
	)
}

// joinSome returns a text with some of many items, and the number of the others.
func joinSome(items []string) string {
	if n := len(items) - manyViolations; n > 0 {
		items = append(items[:manyViolations], fmt.Sprintf("%d more", n))
	}

	return strings.Join(items, "; ")
}

// newerSummary begins the first line of the message about a kubelet that is newer than the tables.
const newerSummary = "prelet knows kubelets to"

// describeNewer reports a kubelet that is newer than the tables, with what only they refuse or do not know, one of a
// version that was not out when the tables were made, and one that is older than they are.
func (j ruleCheck) describeNewer(version string, items []string) {
	minor, isVersion := known.Minor(version)
	oldest, _ := known.Range()
	summary := newerSummary + " " + known.Describe(known.Newest())
	at := j.findFileRange(configPurpose)
	switch {
	case isVersion && minor < oldest:
		j.Note(
			fault.KubeletFlag, at, "prelet knows kubelets from "+known.Version(oldest),
			"The kubelet is %s, and is checked as that version.", strings.TrimPrefix(version, "v"),
		)

		return
	case !known.IsNewer(version) && known.Prerelease(minor) == "":
		return
	case !known.IsNewer(version):
		j.Note(
			fault.KubeletFlag, at, summary,
			"What it refuses in that version was read in %s, and may change until the version is out.",
			known.Prerelease(minor),
		)

		return
	case len(items) == 0:
		j.Note(
			fault.KubeletFlag, at, summary,
			"The kubelet is %s. What only that version has is not checked.", strings.TrimPrefix(version, "v"),
		)

		return
	}

	j.Warn(
		fault.KubeletFlag, at, summary,
		"The kubelet is %s, and may accept what those refuse: %s. Use a prelet that knows this version, or check "+
			"each against the kubelet.", strings.TrimPrefix(version, "v"), joinSome(items),
	)
}

// manyViolations is how many violations of one kind are printed. The others are counted.
const manyViolations = 10

// violationKind is what findings of one kind have in common: the keys of one map, or the flags, that break one rule.
type violationKind struct {
	rule     string
	severity rules.Severity
	parent   string // pointer of the map or list; of flags: "."
}

func kindOf(f rules.Violation) violationKind {
	return violationKind{f.Rule, f.Severity, path.Dir(f.Pointer)}
}

// makeSubject returns the input of the rules. In a check the machine is unknown.
func (j ruleCheck) makeSubject(ctx context.Context) rules.Subject {
	s := j.makeInstalled()
	s.DropInVariable = j.findDropInVariable(ctx)
	s.Config, s.Part, s.Unset = j.makeConfig()
	if s.Config != nil && !s.Part && j.files.File != nil {
		s.File = kubelet.ConfigOf(j.files.File)
	}
	s.Flags = rules.ListFlags(j.flags)
	// The file of a drop-in is another one than that of --config.
	if f, ok := findPurpose(j.node, configPurpose); ok && j.node.DropIn == "" {
		s.Dir = path.Dir(f.Path)
	}

	s.Plugins = j.listPlugins()
	s.CheckFile = func(cert, key string) (string, bool) {
		return j.refuseServing(ctx, cert, key)
	}
	if !j.checking && s.Config != nil {
		s.Machine = rules.NewMachine(j.basis.Facts, j.basis.Kubelet)
		if slices.ContainsFunc(j.node.Files, isRuntimeConfig) {
			s.Machine.CgroupDriver = "" // those of the files on the disk, which the plan may change
			s.Machine.Endpoint = ""
		}
		s.Machine.Exists = func(p string) (exists, isKnown bool) {
			return j.pathExists(ctx, p)
		}
		s.Machine.LookUpProgram = func(p string) (rules.Program, bool) {
			return j.lookUpProgram(ctx, p)
		}
		s.Machine.Logind = func() (rules.Logind, bool) {
			return j.askLogind(ctx)
		}
	}

	return s
}

// makeEffective returns the kubelet with the configuration that it works with: drop-ins merged, and flags over them.
func (j ruleCheck) makeEffective() (s rules.Subject) {
	s = j.makeInstalled()
	c := kubelet.NewConfig()
	if j.node.Effective != nil && c.Merge(j.node.Effective) == nil {
		s.Config = c
	}

	return s
}

// makeInstalled returns the installed kubelet, without its configuration.
func (j ruleCheck) makeInstalled() rules.Subject {
	return rules.Subject{Accepts: makeAccepts(j.accepts), Version: j.basis.Kubelet.KnownVersion()}
}

// findDeclared returns the features that the node will declare, as far as feature gates decide; nil if they are not
// known.
func (j ruleCheck) findDeclared() *[]rules.Declaration {
	list, isKnown := rules.Declarations(j.effective)
	if !isKnown {
		return nil
	}

	return &list
}

// isRuntimeConfig reports whether a planned file is of the configuration of containerd or CRI-O.
func isRuntimeConfig(f node.File) bool {
	folders := []string{"/etc/containerd", "/etc/containerd/conf.d", "/etc/crio", "/etc/crio/crio.conf.d"}

	return f.Kind == node.Regular && slices.Contains(folders, path.Dir(f.Path))
}

// listPlugins returns the names of the plugins in the planned configuration of image credential providers: the file of
// the flag, or the files of its folder that the kubelet reads.
func (j ruleCheck) listPlugins() (names []string) {
	flag, ok := node.FindFlag(j.node.Flags, "image-credential-provider-config")
	if !ok {
		return nil
	}
	for _, f := range j.node.Files {
		isRead := slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(f.Path))
		if f.Kind == node.Regular && (f.Path == flag.Value || path.Dir(f.Path) == path.Clean(flag.Value) && isRead) {
			names = append(names, kubelet.ListCredentialProviders(f.Text.Template())...)
		}
	}

	return names
}

// lookUpProgram looks up a program that the kubelet executes: a planned file, or one of the disk.
func (j ruleCheck) lookUpProgram(ctx context.Context, p string) (program rules.Program, isKnown bool) {
	if f, ok := j.findPlanned(p); ok {
		program.Exists = true
		if f.Mode != 0 && f.Mode&0o111 == 0 {
			program.Refused = "permission denied"
		}
		return program, true
	}
	if j.tape == nil {
		return program, false
	}

	a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: p, Program: true})

	return rules.Program{Exists: a.Exists, Refused: a.Refused}, err == nil
}

// The purposes of the kubelet's own files.
const (
	configPurpose    = "kubelet-config"
	flagsPurpose     = "kubelet-flags"
	bootstrapPurpose = "bootstrap-kubeconfig"
)

// findPurpose returns the planned file of a purpose.
func findPurpose(n node.Node, purpose string) (f node.File, ok bool) {
	return findFile(n, func(f node.File) bool {
		return f.Purpose == purpose
	})
}

func findFile(n node.Node, is func(node.File) bool) (f node.File, ok bool) {
	i := slices.IndexFunc(n.Files, is)
	if i < 0 {
		return f, false
	}

	return n.Files[i], true
}

// findDropInVariable reports whether the variable that kubelets of 1.28 and 1.29 need for --config-dir is set: in a
// planned file, in the kubelet's unit, or in kubeadm's file. nil: not known, because the unit reads another file
// too.
func (j ruleCheck) findDropInVariable(ctx context.Context) *bool {
	planned := []string{unitfile.Gate}
	for _, f := range j.node.Files {
		if setsDropInVariable(f.Text.Template()) {
			return new(true)
		}
		planned = append(planned, f.Path)
	}

	start := j.basis.Start
	switch {
	case start == nil:
		return nil
	case slices.Contains(start.Sets, rules.DropInVariable):
		return new(true)
	}

	isComplete := true
	for _, file := range start.Files {
		if slices.Contains(planned, file) {
			continue
		}
		if file != kubelet.KubeadmDeb().KubeadmFlagsFile { // other files may contain secrets
			isComplete = false
			continue
		}
		a, _, err := world.Original.Ask(ctx, j.tape, world.OriginalReq{Path: file})
		if setsDropInVariable(a.Text) {
			return new(true)
		}
		isComplete = isComplete && err == nil
	}
	if !isComplete {
		return nil
	}

	return new(false)
}

// setsDropInVariable reports whether a unit's file or an environment file sets the variable. Most texts are long and
// do not contain its name.
func setsDropInVariable(text string) bool {
	if !strings.Contains(text, rules.DropInVariable) {
		return false
	}
	setting := regexp.MustCompile(`(?m)^[^#;\n]*\b` + rules.DropInVariable + `=["']?[^\s"']`)

	return setting.MatchString(text)
}

// makeConfig returns the kubelet's configuration as it will be; nil if it is not known. If its base is
// missing (a check without a machine) it contains only the site's settings: isPart. unset are the fields that the
// site removes then.
func (j ruleCheck) makeConfig() (c *kubelet.Config, isPart bool, unset []string) {
	if _, ok := findPurpose(j.node, configPurpose); ok {
		return j.files.Merged.Config, false, nil
	}
	if !j.checking {
		return nil, false, nil
	}

	c = kubelet.NewConfig()
	for _, s := range j.node.Settings {
		if s.Delete {
			unset = append(unset, world.Pointer(s.Path...))
			continue
		}
		if err := c.Set(s.Path, s.Value); err != nil {
			return nil, false, nil // two settings contradict each other: the merge has reported it
		}
	}

	return c, true, unset
}

// pathExists reports whether the kubelet will find a path: a planned file, a folder above one, or a path of the
// disk.
func (j ruleCheck) pathExists(ctx context.Context, p string) (exists, isKnown bool) {
	isPlanned := func(f node.File) bool {
		return f.Kind != node.Missing && hostfiles.Covers(p, f.Path)
	}
	if slices.ContainsFunc(j.node.Files, isPlanned) {
		return true, true
	}
	if j.tape == nil {
		return false, false
	}

	a, _, err := world.Exists.Ask(ctx, j.tape, world.ExistsReq{Path: p})

	return a.Exists, err == nil
}

// makeAccepts returns the flags and gates in a binary's help, in the form that rules take; nil if it was not
// asked.
func makeAccepts(a *world.AcceptsAns) *rules.Accepts {
	if a == nil {
		return nil
	}

	out := &rules.Accepts{
		Flags: map[string]bool{},
		Gates: map[string]known.Gate{},
	}
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

// setter is the source of the item that a violation is about.
type setter struct {
	at        hcl.Range
	name      string // for the message
	also      string // for the message: its setter in the configuration, which a flag hides
	place     origin.BasePlace
	isBase    bool // no stage set it
	isOfFile  bool // the base has it from a file of this node, and not from the cluster
	isDefault bool // the base does not have it either
	isAssumed bool // it is not known whether the kubelet gets it
}

// diagnose reports a violation, unless it is about the base and does not matter now: a rejection by a later version,
// and a rejection that only some versions might make.
func (j ruleCheck) diagnose(f rules.Violation) {
	set := j.findSetter(f)
	// The base of a node may be of a kubelet that is older than the tables.
	isGuess := f.Uncertain || j.basis.Kubelet.Version == nil && strings.HasSuffix(f.Rule, "-unknown")
	isBasesOwn := f.Effect == rules.Deprecated || f.Effect == rules.Places || isGuess && f.Effect == rules.Exits
	if set.isBase && isBasesOwn && !j.advises {
		return
	}

	severity := f.Severity
	isSoft := set.isAssumed || set.isBase && f.Effect == rules.Ignores // the site did not set it
	if isSoft && severity == rules.Error {
		severity = rules.Warning
	}
	code := chooseCode(f)
	at := set.at
	isOfServer := set.isBase && !set.isDefault && !set.isOfFile
	if isOfServer && severity == rules.Error && isContentError(code) {
		if where, ok := j.findServer(f); ok {
			code = fault.ClusterUnusable
			at = where
		}
	}

	set.at = at
	if j.advises {
		set.also = j.findHidden(f)
	}
	j.Report(makeDiagnostic(f, severity, code, set))
}

// makeDiagnostic returns a violation as a diagnostic.
func makeDiagnostic(f rules.Violation, severity rules.Severity, code fault.Code, set setter) *hcl.Diagnostic {
	report := origin.Note
	switch severity {
	case rules.Error:
		report = origin.Error
	case rules.Warning:
		report = origin.Warning
	}
	detail := stages.Sentence(f.Message+" (set by "+set.name+set.also+")", origin.Capitalize(f.Hint))

	d := report(code, set.at, summarize(f), "%s", detail)
	extra, _ := d.Extra.(origin.Extra)
	extra.Rule, extra.Effect = f.Rule, string(f.Effect)
	extra.Item = "config/" + nameItem(f)
	if f.Flag != "" {
		extra.Item = strings.TrimSuffix("flag/"+f.Flag+"/"+f.Member, "/")
	}
	extra.SetBy = set.name
	extra.At = set.place
	d.Extra = extra

	return d
}

// findSetter returns the stage that set the item of a violation, or the base at the place where the site writes the
// file.
func (j ruleCheck) findSetter(f rules.Violation) setter {
	if f.Flag != "" {
		return j.findFlagSetter(f)
	}
	from := j.node.ConfigOrigins[findOwner(j.pointers, f.Pointer)]
	dropIn := j.files.FindDropIn(f.Pointer)
	isOthers := dropIn != nil && dropIn.Path != j.node.DropIn && !f.InFile
	if isOthers {
		at := j.findFileRange(configPurpose)
		written, isWritten := findFile(j.node, func(f node.File) bool { return f.Path == dropIn.Path })
		if isWritten {
			at = written.FindDeclaration()
		}

		return setter{
			at:       at,
			name:     dropIn.Path,
			place:    origin.BasePlace{File: dropIn.Path},
			isBase:   true,
			isOfFile: true,
		}
	}
	isBelow := f.InFile && j.node.DropIn != "" // settings of the site are in the drop-in
	if !isBelow && len(from) > 0 && from[0].Kind != origin.Base {
		return setter{at: origin.DecidingRange(from), name: from[0].Ref}
	}

	set := setter{at: j.findFileRange(configPurpose), isBase: true}
	set.name, set.place = j.nameBase(f, configPurpose)
	_, hasField := j.files.Merged.Config.Get(f.Pointer)
	if !isBelow && !hasField {
		set.name = "the kubelet's default"
		set.place = origin.BasePlace{}
		set.isDefault = true
	}

	return set
}

// findFlagSetter is findSetter for a flag, by the place of its last word.
func (j ruleCheck) findFlagSetter(f rules.Violation) setter {
	use := findUse(j.flags, f)
	if use.From != ownFlags {
		return j.makeInherited(use.From, use.Assumed)
	}
	flag, _ := node.FindFlag(j.node.Flags, f.Flag)
	from := flag.Origins
	for _, l := range j.node.Labels {
		if f.Flag == labelsFlag && l.Key == f.Member {
			from = l.Origins
		}
	}
	if len(from) > 0 && from[0].Kind != origin.Base {
		return setter{at: origin.DecidingRange(from), name: from[0].Ref}
	}

	set := setter{at: j.findFileRange(flagsPurpose), isBase: true}
	set.name, set.place = j.nameBase(f, flagsPurpose)

	return set
}

// makeInherited returns the setter of a word that is not of the flags file.
func (j ruleCheck) makeInherited(where string, isAssumed bool) setter {
	set := setter{at: j.findFileRange(flagsPurpose), name: where, isBase: true}
	if path.IsAbs(where) {
		set.place.File = where
	}
	// A unit that the site changes is read as it is before.
	set.isAssumed = isAssumed || j.node.Inherited.Line.Assumed || len(hostfiles.ListUnitFiles(j.node)) > 0
	if set.isAssumed {
		set.name += "; whether the kubelet gets it is not known"
	}

	return set
}

// findHidden returns, for the message about a flag, who sets its field in the configuration: the flag hides that value.
func (j ruleCheck) findHidden(f rules.Violation) string {
	minor, _ := known.Minor(j.basis.Kubelet.KnownVersion())
	flag, _ := known.FlagAt(f.Flag, minor)
	field := rules.Violation{Pointer: "/" + strings.ReplaceAll(flag.Field, ".", "/")}
	if f.Member != "" {
		field.Pointer += world.Pointer(f.Member)
	}
	if _, isSet := j.files.Merged.Config.Get(field.Pointer); flag.Field == "" || !isSet {
		return ""
	}
	hidden := j.findSetter(field)
	if !hidden.isBase {
		hidden.name += " at " + origin.Place(hidden.at).String()
	}

	return "; also as " + nameItem(field) + " by " + hidden.name
}

// findServer returns where the site names the ConfigMap that contains the item of a violation.
func (j ruleCheck) findServer(f rules.Violation) (at hcl.Range, ok bool) {
	if f.Flag != "" {
		return findConfigMap(j.site, j.basis.Base.FlagsFrom)
	}

	return findConfigMap(j.site, j.basis.Base.ConfigFrom)
}

// nameBase returns, for messages and as a place, where the base has the item of a violation from: a ConfigMap, the file
// of a purpose as it is on the node, or another expression of the site.
func (j ruleCheck) nameBase(f rules.Violation, purpose string) (name string, at origin.BasePlace) {
	if where, isServer := j.findServer(f); isServer {
		at.ConfigMap = strings.Trim(string(where.SliceBytes(j.site.Sources[where.Filename])), `"`)
		return "ConfigMap " + at.ConfigMap, at
	}
	file, isPlanned := findPurpose(j.node, purpose)
	isFlag := f.Flag != ""
	name = "the base"
	if isPlanned && isFlag && j.basis.Base.FlagsFrom == nil {
		name = file.Path
		at.File = file.Path
	} else if isPlanned && !isFlag && j.basis.Base.ConfigFrom == nil {
		at.File = file.Path
	}

	return name, at
}

// nameItem returns the field or flag of a violation for messages: --feature-gates=NAME of a member of a flag.
func nameItem(f rules.Violation) string {
	if f.Flag != "" {
		return strings.TrimSuffix("--"+f.Flag+"="+f.Member, "=")
	}

	return strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
}

// DiagnoseFlags returns what a kubelet of a version refuses on a command line that is not the site's.
func DiagnoseFlags(words []kubelet.Word, version string) hcl.Diagnostics {
	flags := kubelet.FlagsOf(words)
	subject := rules.Subject{Flags: rules.ListFlags(flags), Version: version}
	out := Diagnose(subject, func(f rules.Violation) string { return findUse(flags, f).From })
	for _, w := range flags.Stray() {
		out = append(out, refuseStray(w.Text, setter{name: w.From}))
	}

	return out
}

// Diagnose returns the settings that a kubelet refuses in flags, or in a part of its configuration, that are not the
// site's. where returns the place of the setting of a violation, for people.
func Diagnose(s rules.Subject, where func(f rules.Violation) string) (out hcl.Diagnostics) {
	s.Part = true
	for _, f := range rules.Check(s) {
		isOther := (f.Flag == "") == (s.Config == nil) // of the flags over a configuration, or of no configuration
		if isOther || f.Severity == rules.Note {
			continue
		}
		severity := f.Severity
		if f.Effect == rules.Ignores { // as in a base: the site did not set it
			severity = rules.Warning
		}
		out = append(out, makeDiagnostic(f, severity, chooseCode(f), setter{name: where(f)}))
	}

	return out
}

// summarize returns the first line of a violation's message.
func summarize(f rules.Violation) string {
	item := nameItem(f)

	switch {
	case f.Effect == rules.Exits && f.Severity == rules.Note:
		return "The kubelet of some machines would not start with " + item
	case f.Effect == rules.Exits:
		return "The kubelet would not start with " + item
	case f.Effect == rules.Ends:
		return "A later kubelet would not start with " + item
	case f.Effect == rules.Differs:
		return "The meaning of " + item + " has changed"
	case f.Effect == rules.Places:
		return item + " changes where pods are placed"
	case f.Effect == rules.Ignores && strings.HasPrefix(f.Message, "unknown field"):
		return "The kubelet would silently ignore " + item
	case f.Effect == rules.Ignores:
		return item + " would not have the intended effect"
	}

	return item + " is deprecated"
}

// chooseCode returns the code of a violation by its subject: the machine, a feature gate, a flag, or the
// configuration.
func chooseCode(f rules.Violation) fault.Code {
	switch {
	case f.Effect == rules.Deprecated:
		return fault.KubeletDeprecated
	case f.Effect == rules.Places:
		return fault.DeclaredFeatures
	case strings.HasPrefix(f.Rule, "machine-"):
		return fault.KubeletMachine
	case strings.HasPrefix(f.Rule, "gate-"):
		return fault.KubeletGate
	case f.Flag == labelsFlag && f.Member != "":
		return fault.LabelForbidden
	case f.Flag != "":
		return fault.KubeletFlag
	}

	return fault.ConfigInvalid
}

// findFileRange returns where the site declares the kubelet's file of a purpose; the write stage if it is not
// rendered.
func (j ruleCheck) findFileRange(purpose string) hcl.Range {
	if f, ok := findPurpose(j.node, purpose); ok {
		return f.FindDeclaration()
	}

	return findWriterRange(j.site)
}

// findWriterRange returns the place of the write stage; the zero range if the site has none.
func findWriterRange(s *lang.Site) hcl.Range {
	if all := s.OfType(stages.Write); len(all) > 0 {
		return all[0].Range
	}

	return hcl.Range{}
}

// findOwner returns the field among pointers (sorted; set by stages) that a violation belongs to: the field itself,
// the nearest one around it, or the first one inside it; "" if the base has it.
func findOwner(pointers []string, at string) string {
	for p := at; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if _, ok := slices.BinarySearch(pointers, p); ok {
			return p
		}
	}
	inside := at + "/"
	i, _ := slices.BinarySearch(pointers, inside)
	if i < len(pointers) && strings.HasPrefix(pointers[i], inside) {
		return pointers[i]
	}

	return ""
}
