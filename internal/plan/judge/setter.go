package judge

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/blame"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages"
)

// diagnose reports a violation, unless it is about the base and does not matter now: a rejection by a later version,
// and a rejection that only some versions might make.
func (j checker) diagnose(f rules.Violation) {
	set := j.findSetter(f)
	// The base of a node may be of a kubelet that is older than the tables.
	isGuess := f.Uncertain || j.Kubelet.Version == nil && strings.HasSuffix(f.Rule, "-unknown")
	isBasesOwn := f.Effect == rules.Deprecated || f.Effect == rules.Places || isGuess && f.Effect == rules.Exits
	if set.isBase && isBasesOwn && !j.Advises {
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
	if isOfServer && severity == rules.Error && blame.IsContentError(code) {
		if where, ok := j.findServer(f); ok {
			code = fault.ClusterUnusable
			at = where
		}
	}

	set.at = at
	if j.Advises {
		set.also = j.findHidden(f)
	}
	j.Report(makeDiagnostic(f, severity, code, set))
}

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
	case strings.HasPrefix(f.Rule, "gate-"), f.Rule == byDryRun && isGate(f):
		return fault.KubeletGate
	case f.Flag == labelsFlag && f.Member != "":
		return fault.LabelForbidden
	case f.Flag != "":
		return fault.KubeletFlag
	}

	return fault.ConfigInvalid
}

// isGate reports whether a violation is about one feature gate.
func isGate(f rules.Violation) bool {
	return f.Flag == gatesFlag && f.Member != "" || strings.HasPrefix(f.Pointer, "/featureGates/")
}

// nameItem returns the field or flag of a violation for messages: --feature-gates=NAME of a member of a flag.
func nameItem(f rules.Violation) string {
	if f.Flag != "" {
		return strings.TrimSuffix("--"+f.Flag+"="+f.Member, "=")
	}

	return strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
}

// DiagnoseFlags returns the errors that a kubelet of a version finds in a command line that is not the site's.
func DiagnoseFlags(words []kubelet.Word, version string) hcl.Diagnostics {
	flags := kubelet.FlagsOf(words)
	subject := rules.Subject{Flags: flags.Parsed(), MaySet: flags.MayHave, Version: version}
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

// findSetter returns the stage that set the item of a violation, or the base at the place where the site writes the
// file.
func (j checker) findSetter(f rules.Violation) setter {
	if f.Flag != "" {
		return j.findFlagSetter(f)
	}
	from := j.Node.ConfigOrigins[findOwner(j.pointers, f.Pointer)]
	dropIn := j.Files.FindDropIn(f.Pointer)
	isOthers := dropIn != nil && dropIn.Path != j.Node.DropIn && !f.InFile
	if isOthers {
		at := j.findFileRange("kubelet-config")
		if written, isWritten := j.Node.FindFile(dropIn.Path); isWritten {
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
	isBelow := f.InFile && j.Node.DropIn != "" // settings of the site are in the drop-in
	if !isBelow && len(from) > 0 && from[0].Kind != origin.Base {
		at := j.findKey(origin.DecidingRange(from), path.Base(f.Pointer), f.IsAboutName())

		return setter{at: at, name: from[0].Ref}
	}

	set := setter{at: j.findFileRange("kubelet-config"), isBase: true}
	set.name, set.place = j.nameBase(f, "kubelet-config")
	_, hasField := j.Files.Merged.Config.Get(f.Pointer)
	if !isBelow && !hasField {
		set.name = "the kubelet's default"
		set.place = origin.BasePlace{}
		set.isDefault = true
	}

	return set
}

// findKey returns where the site writes the name of a field: in the object whose place is given or, if the message is
// about the name, before the value in the same line. It is the place itself if neither has it, or has it twice.
func (j checker) findKey(at hcl.Range, name string, isAboutName bool) hcl.Range {
	source := j.Site.Sources[at.Filename]
	if !at.CanSliceBytes(source) {
		return at
	}
	begin := at.Start.Byte
	key := regexp.MustCompile(`(?:^|[\s{,"])(` + regexp.QuoteMeta(name) + `)"?\s*(?:=[^=]|:)`)
	found := key.FindAllSubmatchIndex(at.SliceBytes(source), 2)
	if len(found) == 0 && isAboutName {
		begin = bytes.LastIndexByte(source[:begin], '\n') + 1
		found = key.FindAllSubmatchIndex(source[begin:at.Start.Byte], 2)
	}
	if len(found) != 1 {
		return at
	}

	return lang.RangeOf(source, at.Filename, begin+found[0][2], begin+found[0][3])
}

// findFlagSetter is findSetter for a flag, by the place of its last word.
func (j checker) findFlagSetter(f rules.Violation) setter {
	use := findUse(j.flags, f)
	if use.From != ownFlags {
		return j.makeInherited(use.From, use.Assumed)
	}
	flag, _ := desired.FindFlag(j.Node.Flags, f.Flag)
	from := flag.Origins
	for _, l := range j.Node.Labels {
		if f.Flag == labelsFlag && l.Key == f.Member {
			from = l.Origins
		}
	}
	if len(from) > 0 && from[0].Kind != origin.Base {
		return setter{at: origin.DecidingRange(from), name: from[0].Ref}
	}

	set := setter{at: j.findFileRange("kubelet-flags"), isBase: true}
	set.name, set.place = j.nameBase(f, "kubelet-flags")

	return set
}

// makeInherited returns the setter of a word that is not of the flags file.
func (j checker) makeInherited(where string, isAssumed bool) setter {
	set := setter{at: j.findFileRange("kubelet-flags"), name: where, isBase: true}
	if path.IsAbs(where) {
		set.place.File, _, _ = strings.Cut(where, ":")
	}
	// A unit that the site changes is read as it is before.
	set.isAssumed = isAssumed || j.Node.Inherited.Line.Assumed || len(hostfiles.ListUnitFiles(j.Node)) > 0
	if set.isAssumed {
		set.name += "; whether the kubelet gets it is not known"
	}

	return set
}

// findHidden returns, for the message about a flag, the setter of its field in the configuration: the flag hides that
// value.
func (j checker) findHidden(f rules.Violation) string {
	minor, _ := known.Minor(j.Kubelet.KnownVersion())
	flag, _ := known.FlagAt(f.Flag, minor)
	field := rules.Violation{Pointer: "/" + strings.ReplaceAll(flag.Field, ".", "/")}
	if f.Member != "" {
		field.Pointer += tape.Pointer(f.Member)
	}
	if _, isSet := j.Files.Merged.Config.Get(field.Pointer); flag.Field == "" || !isSet {
		return ""
	}
	hidden := j.findSetter(field)
	if !hidden.isBase {
		hidden.name += " at " + origin.Place(hidden.at).String()
	}

	return "; also as " + nameItem(field) + " by " + hidden.name
}

// findServer returns where the site names the ConfigMap that contains the item of a violation.
func (j checker) findServer(f rules.Violation) (at hcl.Range, ok bool) {
	if f.Flag != "" {
		return blame.FindConfigMap(j.Site, j.Base.FlagsFrom)
	}

	return blame.FindConfigMap(j.Site, j.Base.ConfigFrom)
}

// nameBase returns, for messages and as a place, where the base has the item of a violation from: a ConfigMap, the file
// of a purpose as it is on the node, or another expression of the site.
func (j checker) nameBase(f rules.Violation, purpose string) (name string, at origin.BasePlace) {
	if where, isServer := j.findServer(f); isServer {
		at.ConfigMap = strings.Trim(string(where.SliceBytes(j.Site.Sources[where.Filename])), `"`)
		return "ConfigMap " + at.ConfigMap, at
	}
	file, isPlanned := j.Node.FindPurpose(purpose)
	isFlag := f.Flag != ""
	name = "the base"
	if isPlanned && isFlag && j.Base.FlagsFrom == nil {
		name = file.Path
		at.File = file.Path
	} else if isPlanned && !isFlag && j.Base.ConfigFrom == nil {
		at.File = file.Path
	}

	return name, at
}

// findFileRange returns where the site declares the kubelet's file of a purpose; the write stage if it is not
// rendered.
func (j checker) findFileRange(purpose string) hcl.Range {
	if f, ok := j.Node.FindPurpose(purpose); ok {
		return f.FindDeclaration()
	}

	return blame.FindWriter(j.Site)
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
