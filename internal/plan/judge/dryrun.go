package judge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/stages"
)

// FinishedKubelet is the kubelet of a finished node, as far as the plan knows it.
type FinishedKubelet struct {
	Unit  string
	Files []desired.File
	Words []kubelet.Word // its arguments, as systemd passes them
	Start string         // the folder in which it starts; "" for the root
	// Config is the configuration in the file of --config, and DropIns those in the Folder of --config-dir.
	Config  map[string]any
	DropIn  string // the planned one of the site; "": the site writes the file of --config
	Folder  string // "": the plan knows none
	DropIns []stages.DropIn
}

// makeFinished returns the kubelet of the node.
func (in Case) makeFinished() FinishedKubelet {
	out := FinishedKubelet{
		Unit:    in.Unit,
		Files:   in.Node.Files,
		Words:   listWords(in.Node),
		Start:   in.Node.Inherited.Line.Folder,
		Config:  in.Files.File,
		DropIn:  in.Node.DropIn,
		Folder:  in.Files.Folder,
		DropIns: in.Files.DropIns,
	}
	if out.Config == nil {
		out.Config = in.Files.Merged.Config.Object()
	}

	return out
}

// isJudged reports whether the kubelet's binary has the verdict on the finished node. In a check the base may not be
// known: then the rules alone have it.
func (in Case) isJudged() bool {
	_, isWhole := in.Node.FindPurpose("kubelet-config")

	return in.Binary != nil && in.Finished != nil && in.Files != nil && (isWhole || !in.Check)
}

// lacksFacts reports whether a check is on a sample machine without facts. What they decide is missing in its
// configuration, so the binary is asked on the others only.
func (in Case) lacksFacts() bool { return in.Check && in.Facts == nil }

// AskBinary asks whether the kubelet's binary accepts the finished node; nil if it was not asked, or did not answer.
// Without an answer the boot is degraded, and the rules decide alone.
func (in Case) AskBinary(ctx context.Context) (verdict *tape.DryRunAns, found origin.Collector) {
	if !in.isJudged() || in.lacksFacts() {
		return nil, found
	}

	in.Finished(in.makeFinished())
	req := newDryRunReq(in.Node, in.Kubelet)
	a, ans, err := tape.DryRun.Ask(ctx, in.Binary, req)
	switch {
	case ans.Code() == fault.Unread:
		return nil, found
	case err != nil:
		const summary = "The kubelet's binary was not asked about the plan"
		found.Degrade(fault.KubeletMachine, summary+": "+ans.Why())
		found.Warn(
			fault.KubeletMachine, hcl.Range{}, summary, "%s",
			stages.Sentence(ans.Why(), "prelet's own rules have checked it. Start the kubelet by hand to see more"),
		)
		return nil, found
	case a.Broken != "":
		found.Error(
			fault.KubeletMachine, hcl.Range{}, "The kubelet cannot run",
			"%s", stages.Sentence(a.Program+": "+a.Broken, "Install the kubelet again"),
		)
		return nil, found
	}

	return &a, found
}

// newDryRunReq returns the question whether the kubelet's binary accepts a node.
func newDryRunReq(n desired.Node, k tape.KubeletAns) tape.DryRunReq {
	return tape.DryRunReq{Kubelet: k.KnownVersion(), Digest: digestFiles(n)}
}

// digestFiles returns a digest of the planned files that a dry run may read.
func digestFiles(n desired.Node) string {
	type file struct{ Path, Kind, Text string }
	files := []file{}
	for _, f := range n.Files {
		if strings.HasSuffix(f.Purpose, "kubeconfig") { // no dry run reads it, and a joined node has another one
			continue
		}
		files = append(files, file{f.Path, fmt.Sprint(f.Kind, f.CreateOnly), f.Text.Template()})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	text, _ := json.Marshal(files) // strings only
	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:])
}

// applyVerdict returns the violations that remain after the verdict of the kubelet's binary, which overrides the rules
// that a dry run covers. It reports a refusal, and the rules that the binary contradicts.
func (j checker) applyVerdict(found []rules.Violation) (rest []rules.Violation) {
	a := j.verdict
	switch {
	case a == nil && j.lacksFacts() && (j.isJudged() || j.IsAskedElsewhere): // on the machines with facts
		return slices.DeleteFunc(slices.Clone(found), isCovered)
	case a == nil:
		return found
	}

	isOther := func(f rules.Violation) bool { return !isCovered(f) }
	covered := slices.DeleteFunc(slices.Clone(found), isOther)
	rest = slices.DeleteFunc(slices.Clone(found), isCovered)
	if a.Accepted {
		j.reportContradiction(a, covered)
		return rest
	}

	named := j.findNamed(a.Refusal)
	isNamed := func(f rules.Violation) bool {
		return slices.ContainsFunc(named, func(n rules.Violation) bool { return isWithin(f, n) })
	}
	if len(named) == 0 { // the words may give the value or the file of an item, and not its name
		isNamed = func(f rules.Violation) bool { return j.isQuoted(f, a.Refusal) }
	}
	var refused []rules.Violation
	for _, f := range covered {
		if isNamed(f) {
			refused = append(refused, f)
		} else {
			rest = append(rest, f)
		}
	}
	for _, n := range named {
		if !slices.ContainsFunc(refused, func(f rules.Violation) bool { return isWithin(f, n) }) {
			refused = append(refused, n)
		}
	}
	j.reportRefusal(a, refused)

	return rest
}

// isQuoted reports whether a text of the kubelet quotes the value of an item, or names the file that sets it.
func (j checker) isQuoted(f rules.Violation, text string) bool {
	quotes := func(value string) bool { return value != "" && strings.Contains(text, strconv.Quote(value)) }
	if f.Flag != "" {
		flag, _ := desired.FindFlag(j.Node.Flags, f.Flag)
		return quotes(flag.Value)
	}

	var value any = j.Files.Merged.Config.Object()
	for _, key := range tape.SplitPointer(f.Pointer) {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	if value, isText := value.(string); isText && quotes(value) {
		return true
	}

	file := j.findSetter(f).place.File
	if file == "" {
		config, _ := j.Node.FindPurpose("kubelet-config")
		file = cmp.Or(j.Node.DropIn, config.Path)
	}

	return file != "" && strings.Contains(text, file)
}

// isCovered reports whether a dry run of the kubelet finds a violation.
func isCovered(f rules.Violation) bool {
	return f.InDryRun && f.Effect == rules.Exits && f.Severity != rules.Note
}

// isWithin reports whether a violation is about an item, or about an element of it.
func isWithin(f, item rules.Violation) bool {
	return strings.HasPrefix(nameItem(f)+".", nameItem(item)+".")
}

// reportContradiction notes the items that the kubelet's binary accepts, although rules refuse them.
func (j checker) reportContradiction(a *tape.DryRunAns, covered []rules.Violation) {
	var items []string
	for _, f := range covered {
		if f.Severity == rules.Error && !f.Newer {
			items = append(items, nameItem(f)+": "+f.Message)
		}
	}
	if len(items) > 0 {
		j.Note(
			fault.ConfigInvalid, j.findFileRange("kubelet-config"),
			"The kubelet's binary accepts what prelet would refuse",
			"%s accepts it, and prelet follows: %s. Please report this.", a.Program, joinSome(items),
		)
	}
}

// reportRefusal reports the words of the kubelet's binary, at the first of the items that are refused.
func (j checker) reportRefusal(a *tape.DryRunAns, refused []rules.Violation) {
	if len(refused) == 0 {
		j.Report(ofDryRun(origin.Error(
			fault.ConfigInvalid, j.findFileRange("kubelet-config"), "The installed kubelet would not start",
			"%s refuses its flags or configuration: %s", a.Program, stages.Sentence(a.Refusal, ""),
		)))
		return
	}

	var setters, hints []string
	for _, f := range refused {
		setter := nameItem(f) + " by " + j.findSetter(f).name
		if !slices.Contains(setters, setter) {
			setters = append(setters, setter)
		}
		if f.Hint != "" && !slices.Contains(hints, f.Hint) {
			hints = append(hints, f.Hint)
		}
	}
	first := refused[0]
	first.Hint = strings.Join(hints, "; ")
	set := j.findSetter(first)
	if len(setters) > 1 {
		set.name = strings.Join(setters, ", ")
	}
	first.Message = a.Program + ": " + a.Refusal
	first.Effect, first.Severity = rules.Exits, rules.Error
	j.Report(ofDryRun(makeDiagnostic(first, rules.Error, chooseCode(first), set)))
}

// ofDryRun marks an error as a refusal of the kubelet, and not one of the site, also if no rule of prelet knows it.
func ofDryRun(d *hcl.Diagnostic) *hcl.Diagnostic {
	extra, _ := d.Extra.(origin.Extra)
	extra.Effect = string(rules.Exits)
	if rules.SourceOf(extra.Rule) == "" {
		extra.Rule = "dry-run"
	}
	d.Extra = extra

	return d
}

// word matches what may be the name of a flag, a field or a feature gate.
var word = texts.LazyRegexp(`[A-Za-z][A-Za-z0-9./_-]*`)

// findNamed returns the flags, fields, feature gates and labels of the node that a text of the kubelet names, in the
// order of the text.
func (j checker) findNamed(text string) (named []rules.Violation) {
	if text == "" {
		return nil
	}

	items := map[string]rules.Violation{}
	addFields(items, "", j.Files.Merged.Config.Object())
	minor, _ := known.Minor(j.Kubelet.KnownVersion())
	for _, f := range j.Node.Flags {
		items["--"+f.Name] = rules.Violation{Flag: f.Name}
		flag, _ := known.FlagAt(strings.ReplaceAll(f.Name, "_", "-"), minor)
		isProse := strings.ToLower(flag.Field) == flag.Field && !strings.Contains(flag.Field, ".") // such as address
		if !isProse {
			items[flag.Field] = rules.Violation{Flag: f.Name} // the kubelet names the field, also of a flag
		}
		if f.Name == "feature-gates" {
			for pair := range strings.SplitSeq(f.Value, ",") {
				gate, _, _ := strings.Cut(pair, "=")
				items[gate] = rules.Violation{Rule: "gate-", Flag: f.Name, Member: gate}
			}
		}
	}

	for _, l := range j.Node.Labels {
		items[l.Key] = rules.Violation{Flag: labelsFlag, Member: l.Key}
	}

	for _, at := range word().FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if strings.HasSuffix(text[:at[0]], "--") {
			name = "--" + name
		}
		f, isItem := items[name]
		if dot := strings.LastIndex(name, "."); !isItem && dot >= 0 && dot+1 < len(name) { // with the objects around it
			f, isItem = items[strings.ToLower(name[dot+1:dot+2])+name[dot+2:]] // as its name may be in Go
		}
		if isItem && !slices.Contains(named, f) && (f.Pointer == "" || isFieldName(name, f.Pointer, text)) {
			named = append(named, f)
		}
	}

	return named
}

// isFieldName reports whether a word of a text is the name of a field, and not a word of its prose, such as "enabled"
// or "memory": the name has a capital or its path, or it is of the whole configuration or of an object that the text
// names.
func isFieldName(word, pointer, text string) bool {
	keys := tape.SplitPointer(pointer)
	if len(keys) < 2 || strings.ToLower(word) != word || strings.Contains(word, ".") {
		return true
	}

	return slices.ContainsFunc(keys[:len(keys)-1], func(key string) bool {
		flag := upper().ReplaceAllStringFunc(key, func(s string) string { return "-" + strings.ToLower(s) })
		return strings.Contains(text, key) || strings.Contains(text, "--"+flag)
	})
}

// upper matches a capital.
var upper = texts.LazyRegexp(`[A-Z]`)

// addFields adds the fields of a configuration by their names, and feature gates as such. Of fields with one name the
// first counts.
func addFields(items map[string]rules.Violation, parent string, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		pointer := parent + tape.Pointer(name)
		if _, isThere := items[name]; !isThere {
			items[name] = rules.Violation{Pointer: pointer}
			if parent == "/featureGates" {
				items[name] = rules.Violation{Rule: "gate-", Pointer: pointer}
			}
		}
		if inner, isObject := object[name].(map[string]any); isObject {
			addFields(items, pointer, inner)
		}
	}
}
