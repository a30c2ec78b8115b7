package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// InputChange is an input that the two runs did not have in common: a file of the site, prelet, or an answer of the
// machine or the cluster.
type InputChange struct {
	Name    string   `json:"name"` // in words: "variable zone", "ConfigMap kube-system/kubelet-config"
	Kind    string   `json:"kind"` // site | prelet | machine | rollback, or the kind of the question as in recordings
	Details []Detail `json:"details"`
	Left    int      `json:"left,omitempty"` // how many more details there are
}

// Detail is one part of an input that differs: two values, or lines of text.
type Detail struct {
	Path   string `json:"path,omitempty"` // .cpu.model; "" for the whole input
	Before Value  `json:"before"`
	After  Value  `json:"after"`
	Diff   string `json:"diff,omitempty"` // unified, of lines of text; then Before and After are ""
}

// maxDetails is how many parts of one input are listed.
const maxDetails = 20

// preletInput is the name of prelet as an input.
const preletInput = "prelet"

// findInputs returns the differences between two recordings: the site, prelet, the machine, then the answers.
func findInputs(a, b Generation) []InputChange {
	x := a.Recording.Header
	y := b.Recording.Header
	out := findSiteFiles(x.Site, y.Site)
	isSameSite := len(out) == 0
	out = append(out, headerInput(preletInput, "prelet", x.Prelet, y.Prelet)...)
	out = append(out, headerInput("the machine", "machine", x.Machine, y.Machine)...)

	for _, kind := range tape.InputKinds() {
		before := byName(a.Recording, kind)
		after := byName(b.Recording, kind)
		for _, name := range union(before, after) {
			x, wasAsked := before[name]
			y, isAsked := after[name]
			if (!wasAsked || !isAsked) && !isSameSite {
				continue // the site that asks differs, and is listed
			}
			if x.Code() != y.Code() {
				x = withDefault(a.Run, x)
				y = withDefault(b.Run, y)
			}
			i := InputChange{Name: name, Kind: string(kind)}
			if i.compareAnswers(x, y); len(i.Details) > 0 {
				out = append(out, i)
			}
		}
	}

	return out
}

// ListInputs returns the names of the inputs that differ between two plans: files of their sites, without folders, and
// answers. They are why the plans differ. The replies of the kubelet's binary and of the runtime are left out: they
// follow from the others.
func ListInputs(before, after *evaluate.Plan) (names []string) {
	var both [2]Generation
	for i, p := range []*evaluate.Plan{before, after} {
		r := &tape.Recording{Entries: p.Tape.Entries()}
		for _, f := range p.Site.Files {
			r.Header.Site = append(r.Header.Site, tape.SiteFile{Name: path.Base(f.Name), Text: f.Text})
		}
		both[i].Recording = r
	}
	for _, i := range findInputs(both[0], both[1]) {
		if i.Kind != string(tape.KindDryRun) && i.Kind != string(tape.KindConfigDump) {
			names = append(names, i.Name)
		}
	}

	return names
}

func findSiteFiles(a, b []tape.SiteFile) []InputChange {
	before := siteTexts(a)
	after := siteTexts(b)
	out := []InputChange{}
	for _, name := range union(before, after) {
		if before[name] != after[name] {
			out = append(out, InputChange{
				Name:    "site file " + name,
				Kind:    "site",
				Details: []Detail{{Diff: Unified(before[name], after[name])}},
			})
		}
	}

	return out
}

func siteTexts(files []tape.SiteFile) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		out[f.Name] = f.Text
	}

	return out
}

func headerInput(name, kind, before, after string) []InputChange {
	if before == after || before == "" || after == "" {
		return nil
	}

	return []InputChange{{
		Name:    name,
		Kind:    kind,
		Details: []Detail{{Before: Value(before), After: Value(after)}},
	}}
}

type answer struct {
	tape.Question
	tape.Answer
	isAsked bool
}

// byName returns the answers of a recording to one kind of questions, by the names of their inputs.
func byName(r *tape.Recording, kind tape.Kind) map[string]answer {
	out := map[string]answer{}
	for _, e := range r.Entries {
		if e.Kind == kind {
			out[tape.InputName(e.Question)] = answer{e.Question, e.Answer, true}
		}
	}

	return out
}

// withDefault returns the answer of a variable that no source has as its default. Other answers are returned unchanged.
func withDefault(p *evaluate.Plan, a answer) answer {
	r, _ := tape.Variable.Request(a.Question)
	if p == nil || p.Eval == nil || r.Name == "" || r.Sensitive || a.Code() != fault.Absent {
		return a
	}
	v := p.Site.Variables[r.Name]
	if v == nil || v.Default == nil || p.Site.Values[r.Name] != nil {
		return a
	}

	x, _ := explain.Explain(p, explain.Item{Kind: explain.Var, Name: r.Name})
	text, isText := x.Whole.(string)
	if !isText {
		text = string(encode(x.Whole))
	}
	a.Answer = tape.Variable.Answer(tape.VariableAns{Text: text, Source: "default"})

	return a
}

// compareAnswers adds the differences between two answers.
func (i *InputChange) compareAnswers(a, b answer) {
	why, was := describeFailure(b), describeFailure(a)
	if why != was {
		i.Details = []Detail{{Before: Value(orAnswered(was)), After: Value(orAnswered(why))}}
		return
	}
	if bytes.Equal(a.Value, b.Value) {
		return
	}

	kind := tape.Kind(i.Kind)
	var d differ
	d.compare("", decode(kind, a.Value), decode(kind, b.Value))
	if kind == tape.KindFile {
		for n, x := range d.found { // the file may be readable by its owner only
			d.found[n] = Detail{
				Path:   x.Path,
				Before: "a text",
				After:  "another one; not shown, because recordings do not have the mode of the file",
			}
		}
	}
	all := slices.DeleteFunc(d.found, func(x Detail) bool {
		return isIgnored(kind, x.Path)
	})
	if len(all) > maxDetails {
		i.Left = len(all) - maxDetails
		all = all[:maxDetails]
	}
	i.Details = all
}

// describeFailure returns why an answer has no value of this run; "" where it has one.
func describeFailure(a answer) string {
	switch {
	case !a.isAsked:
		return "not read"
	case a.Fault != nil:
		return a.Name() + ": " + a.Why()
	case a.Stale != 0:
		return fmt.Sprintf("that of generation %d, because %s", a.Stale, strings.TrimSuffix(a.Because, "."))
	}

	return ""
}

func orAnswered(failure string) string {
	if failure == "" {
		return "read"
	}

	return failure
}

// isIgnored reports whether a part of an answer is not an input of a plan: where facts were read, the number of an
// object's version, and the certificate of a CA, whose hash is listed.
func isIgnored(kind tape.Kind, path string) bool {
	switch kind {
	case tape.KindHardware:
		return strings.HasPrefix(path, ".evidence") || strings.HasPrefix(path, ".unknown")
	case tape.KindObject:
		return path == ".resource_version"
	case tape.KindTrust:
		return path == ".pem"
	case tape.KindKubelet:
		return path == ".joined_why"
	}

	return false
}

// decode returns the value of an answer; nil if it has none. That a file of the kubelet is prelet's own follows from
// the earlier generation, and is left out.
func decode(kind tape.Kind, text json.RawMessage) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}

	answer, _ := v.(map[string]any)
	if identity, ok := answer["identity"].(map[string]any); ok && kind == tape.KindKubelet {
		delete(identity, "ours")
		if len(identity) == 0 {
			delete(answer, "identity")
		}
	}

	return v
}

// differ collects the leaves that differ between two JSON values.
type differ struct{ found []Detail }

func (d *differ) compare(path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for _, key := range union(a, b) {
				d.compare(path+"."+key, a[key], b[key])
			}
			return
		}
	case []any:
		if b, ok := b.([]any); ok && hasKeys(a) && hasKeys(b) {
			d.compareKeyed(path, a, b)
			return
		}
	}
	d.compareLeaf(path, a, b)
}

func (d *differ) compareLeaf(path string, a, b any) {
	before := encode(a)
	after := encode(b)
	x, isText := a.(string)
	y, isAlsoText := b.(string)
	switch {
	case before == after:
	case isText && isAlsoText && strings.Contains(x+y, "\n"):
		d.found = append(d.found, Detail{Path: path, Diff: Unified(x, y)})
	default:
		d.found = append(d.found, Detail{Path: path, Before: before, After: after})
	}
}

// encode returns a value as JSON; "" for null.
func encode(v any) Value {
	if v == nil {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "?"
	}

	return Value(strings.TrimSpace(b.String()))
}

// keyOf returns the name of an element of a list of devices; "" if it has none.
func keyOf(element any) string {
	object, _ := element.(map[string]any)
	for _, key := range []string{"address", "interface", "name", "id", "device"} {
		if v, ok := object[key]; ok && v != nil {
			return fmt.Sprint(v)
		}
	}

	return ""
}

// hasKeys reports whether each element of a list has a name of its own. A list without elements has.
func hasKeys(list []any) bool {
	seen := map[string]bool{}
	for _, e := range list {
		key := keyOf(e)
		if key == "" || seen[key] {
			return false
		}
		seen[key] = true
	}

	return true
}

// compareKeyed compares two lists of devices by their names, so that one device more is one difference.
func (d *differ) compareKeyed(path string, a, b []any) {
	before := map[string]any{}
	after := map[string]any{}
	for _, e := range a {
		before[keyOf(e)] = e
	}
	for _, e := range b {
		after[keyOf(e)] = e
	}

	for _, key := range union(before, after) {
		x, isBefore := before[key]
		y, isAfter := after[key]
		at := path + "[" + key + "]"
		switch {
		case isBefore && isAfter:
			d.compare(at, x, y)
		case isBefore:
			d.found = append(d.found, Detail{Path: at, Before: "there"})
		default:
			d.found = append(d.found, Detail{Path: at, After: "there"})
		}
	}
}
