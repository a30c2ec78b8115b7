package judge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
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

// isJudgedByBinary reports whether the rules that a dry run covers are not applied: the kubelet's binary accepts the
// node, or is asked on sample machines with facts.
func (j checker) isJudgedByBinary() bool {
	isAskedElsewhere := j.lacksFacts() && (j.isJudged() || j.IsAskedElsewhere)

	return isAskedElsewhere || j.verdict != nil && j.verdict.Accepted
}

// reportRefusal reports the words with which the kubelet's binary refuses the node: at the item of a rule that they
// mean, with its hint, or else at the first item that they name. It returns the violations of other items.
func (j checker) reportRefusal(a *tape.DryRunAns, found []rules.Violation) (rest []rules.Violation) {
	var item rules.Violation
	named := j.findPlaces(a.Refusal)
	i := slices.IndexFunc(found, func(f rules.Violation) bool { return f.InDryRun && j.isMeant(f, named, a.Refusal) })
	switch {
	case i >= 0:
		item = found[i]
	case len(named) > 0:
		item = named[0]
	default:
		d := origin.Error(
			fault.ConfigInvalid, j.findFileRange("kubelet-config"), "The installed kubelet would not start",
			"%s refuses its flags or configuration: %s", a.Program, stages.Sentence(a.Refusal, ""),
		)
		d.Extra = origin.Extra{Code: fault.ConfigInvalid, Rule: byDryRun, Effect: string(rules.Exits)}
		j.Report(d)

		return found
	}

	item.Rule = cmp.Or(item.Rule, byDryRun)
	item.Effect = rules.Exits
	item.Message = a.Program + ": " + a.Refusal
	j.Report(makeDiagnostic(item, rules.Error, chooseCode(item), j.findSetter(item)))

	return slices.DeleteFunc(found, func(f rules.Violation) bool {
		return f.InDryRun && nameItem(f) == nameItem(item)
	})
}

// isMeant reports whether the words of the kubelet are about the item of a violation: they name it, or an object around
// it. Words that name nothing may quote its value.
func (j checker) isMeant(f rules.Violation, named []rules.Violation, words string) bool {
	if len(named) > 0 {
		return slices.ContainsFunc(named, func(item rules.Violation) bool {
			return strings.HasPrefix(nameItem(f)+".", nameItem(item)+".")
		})
	}

	value, _ := j.Files.Merged.Config.Get(f.Pointer)
	text, isText := value.(string)
	if f.Flag != "" {
		text, isText = j.flags.Lookup(f.Flag)
	}

	return isText && text != "" && strings.Contains(words, strconv.Quote(text))
}

// byDryRun is the rule of a refusal that no rule of prelet knows.
const byDryRun = "dry-run"

// word matches what may be the name of a flag, a field or a feature gate.
var word = texts.LazyRegexp(`[A-Za-z][A-Za-z0-9./_-]*`)

// findPlaces returns the flags, fields, feature gates and labels of the node that a text of the kubelet names, in its
// order.
func (j checker) findPlaces(text string) (named []rules.Violation) {
	items := map[string]rules.Violation{}
	addFields(items, "", j.Files.Merged.Config.Object())
	minor, _ := known.Minor(j.Kubelet.KnownVersion())
	for _, f := range j.Node.Flags {
		flag, _ := known.FlagAt(strings.ReplaceAll(f.Name, "_", "-"), minor)
		items["--"+f.Name] = rules.Violation{Flag: f.Name}
		items[flag.Field] = rules.Violation{Flag: f.Name} // the kubelet names the field, also of a flag
		if f.Name != gatesFlag {
			continue
		}
		for pair := range strings.SplitSeq(f.Value, ",") {
			gate, _, _ := strings.Cut(pair, "=")
			items[gate] = rules.Violation{Flag: f.Name, Member: gate}
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
		item, isItem := items[name]
		if dot := strings.LastIndex(name, "."); !isItem && dot >= 0 && dot+1 < len(name) { // with the objects around it
			item, isItem = items[strings.ToLower(name[dot+1:dot+2])+name[dot+2:]] // as its name may be in Go
		}
		if isItem && !isProse(name, item.Pointer, text) {
			named = append(named, item)
		}
	}

	return named
}

// isProse reports whether a word of a text, such as "enabled" or "memory", is not meant as the name of the item at a
// pointer, "" for a flag: it looks like any other word, and the text does not name an object around the field.
func isProse(word, pointer, text string) bool {
	isMarked := strings.ToLower(word) != word || strings.ContainsAny(word, "./") || strings.HasPrefix(word, "--")
	objects := strings.Split(path.Dir(pointer), "/")[1:] // "" is the whole configuration, which each text is about
	isNamed := func(object string) bool { return strings.Contains(text, object) }

	return !isMarked && !slices.ContainsFunc(objects, isNamed)
}

// addFields adds the fields of a configuration by their names. Of fields with one name the first counts.
func addFields(items map[string]rules.Violation, parent string, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		pointer := parent + tape.Pointer(name)
		if _, isThere := items[name]; !isThere {
			items[name] = rules.Violation{Pointer: pointer}
		}
		if inner, isObject := object[name].(map[string]any); isObject {
			addFields(items, pointer, inner)
		}
	}
}
