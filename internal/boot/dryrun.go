package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lazy"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// FinishedKubelet is the kubelet of a finished node, as far as the plan knows it.
type FinishedKubelet struct {
	Unit  string
	Files []node.File
	Words []kubelet.Word // its arguments, as systemd passes them
	// Config is the configuration in the file of --config, and DropIns those of --config-dir.
	Config  map[string]any
	DropIn  string // the planned one of the site; "": the site writes the file of --config
	DropIns []stages.DropIn
}

// makeFinished returns the kubelet of the node.
func (j ruleCheck) makeFinished() FinishedKubelet {
	out := FinishedKubelet{
		Unit:    KubeletUnit(j.site),
		Files:   j.node.Files,
		Words:   listWords(j.node),
		Config:  j.files.file,
		DropIn:  j.node.DropIn,
		DropIns: j.files.dropIns,
	}
	if out.Config == nil {
		out.Config = j.files.merged.Config.Object()
	}

	return out
}

// askDryRun asks whether the kubelet's binary accepts the finished node; nil if it was not asked, or did not answer.
// Without an answer the boot is degraded, and the rules decide alone. In a check the base may not be known: then it is
// not asked.
func (j ruleCheck) askDryRun(ctx context.Context) (verdict *world.DryRunAns, found Findings) {
	_, isWhole := findPurpose(j.node, configPurpose)
	isAsked := j.binary != nil && j.finished != nil && j.files != nil && (isWhole || !j.checking)
	if !isAsked {
		return nil, found
	}

	j.finished(j.makeFinished())
	req := NewDryRunReq(j.node, j.basis.Kubelet)
	a, ans, err := world.DryRun.Ask(ctx, j.binary, req)
	switch {
	case ans.Code() == fault.Unread:
		return nil, found
	case err != nil:
		const summary = "The kubelet's binary was not asked about the plan"
		found.degrade(fault.KubeletMachine, summary+": "+ans.Why())
		found.Warn(
			fault.KubeletMachine, hcl.Range{}, summary, "%s",
			stages.Sentence(ans.Why(), "prelet's own rules have checked it. Start the kubelet by hand to see more"),
		)
		return nil, found
	}

	return &a, found
}

// NewDryRunReq returns the question whether the kubelet's binary accepts a node.
func NewDryRunReq(n node.Node, k world.KubeletAns) world.DryRunReq {
	return world.DryRunReq{Kubelet: k.KnownVersion(), Digest: digestFiles(n)}
}

// digestFiles returns a digest of the planned files that a dry run may read.
func digestFiles(n node.Node) string {
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
// about what a dry run covers. It reports a refusal, and the rules that the binary contradicts.
func (j ruleCheck) applyVerdict(found []rules.Violation) (rest []rules.Violation) {
	a := j.dryRun
	if a == nil {
		return found
	}

	var contradicted []string
	named := j.findNamed(a.Refusal)
	for _, f := range found {
		quoted := isCovered(f) && strings.Contains(a.Refusal, f.Message)
		if quoted && !slices.ContainsFunc(named, func(n rules.Violation) bool { return nameItem(n) == nameItem(f) }) {
			named = append(named, f)
		}
	}
	for _, f := range found {
		switch {
		case !isCovered(f):
			rest = append(rest, f)
		case a.Accepted && f.Severity == rules.Error && !f.Newer:
			contradicted = append(contradicted, nameItem(f)+": "+f.Message)
		case a.Accepted:
		case slices.ContainsFunc(named, func(n rules.Violation) bool { return nameItem(n) == nameItem(f) }):
			named = addHint(named, f)
		default:
			rest = append(rest, f)
		}
	}

	if len(contradicted) > 0 {
		j.Note(
			fault.ConfigInvalid, j.findFileRange(configPurpose),
			"The kubelet's binary accepts what prelet would refuse",
			"%s accepts it, and prelet follows: %s. Please report this.", a.Program, joinSome(contradicted),
		)
	}
	if !a.Accepted {
		j.reportRefusal(a, named)
	}

	return rest
}

// isCovered reports whether a dry run of the kubelet finds a violation.
func isCovered(f rules.Violation) bool {
	return f.InDryRun && f.Effect == rules.Exits && f.Severity != rules.Note
}

// addHint gives the items of a refusal the hint of the rule that is about the same item.
func addHint(named []rules.Violation, f rules.Violation) []rules.Violation {
	for i, n := range named {
		if nameItem(n) == nameItem(f) && n.Hint == "" {
			named[i].Hint = f.Hint
		}
	}

	return named
}

// reportRefusal reports the words of the kubelet's binary, at the item that they name.
func (j ruleCheck) reportRefusal(a *world.DryRunAns, named []rules.Violation) {
	if len(named) == 0 {
		j.Error(
			fault.ConfigInvalid, j.findFileRange(configPurpose), "The installed kubelet would not start",
			"%s refuses its flags or configuration: %s", a.Program, stages.Sentence(a.Refusal, ""),
		)
		return
	}

	var setters, hints []string
	for _, f := range named {
		setters = append(setters, nameItem(f)+" by "+j.findSetter(f).name)
		if f.Hint != "" && !slices.Contains(hints, f.Hint) {
			hints = append(hints, f.Hint)
		}
	}
	first := named[0]
	first.Hint = strings.Join(hints, "; ")
	set := j.findSetter(first)
	if len(named) > 1 {
		set.name = strings.Join(setters, ", ")
	}
	first.Message = a.Program + ": " + a.Refusal
	first.Effect, first.Severity = rules.Exits, rules.Error
	j.Report(makeDiagnostic(first, rules.Error, chooseCode(first), set))
}

// word matches what may be the name of a flag, a field or a feature gate.
var word = lazy.Regexp(`[A-Za-z][A-Za-z0-9./_-]*`)

// findNamed returns the flags, fields, feature gates and labels of the node that a text of the kubelet names, in the
// order of the text.
func (j ruleCheck) findNamed(text string) (named []rules.Violation) {
	if text == "" {
		return nil
	}

	items := map[string]rules.Violation{}
	addFields(items, "", j.files.merged.Config.Object())
	for _, f := range j.node.Flags {
		items["--"+f.Name] = rules.Violation{Flag: f.Name}
		if f.Name == "feature-gates" {
			for pair := range strings.SplitSeq(f.Value, ",") {
				gate, _, _ := strings.Cut(pair, "=")
				items[gate] = rules.Violation{Rule: "gate-", Flag: f.Name, Member: gate}
			}
		}
	}

	for _, l := range j.node.Labels {
		items[l.Key] = rules.Violation{Flag: labelsFlag, Member: l.Key}
	}

	for _, at := range word().FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if strings.HasSuffix(text[:at[0]], "--") {
			name = "--" + name
		}
		if strings.HasPrefix(name, "KubeletConfiguration.") { // a field of Go, with those around it
			name = name[strings.LastIndex(name, ".")+1:]
		}
		f, isItem := items[name]
		if isItem && !slices.Contains(named, f) {
			named = append(named, f)
		}
	}

	return named
}

// addFields adds the fields of a configuration by their names, and feature gates as such. Of fields with one name the
// first counts.
func addFields(items map[string]rules.Violation, parent string, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		pointer := parent + world.Pointer(name)
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
