package fleet

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

type EffectKind string

// The states, in the order in which groups are printed.
const (
	Changed   EffectKind = "changed"
	Unknown   EffectKind = "unknown"   // the recording lacks an answer that a plan needs
	Unchanged EffectKind = "unchanged" // complete, without a change
	Failed    EffectKind = "failed"
)

// Message is one distinct diagnostic of a machine.
type Message struct {
	Severity string `json:"severity"` // error | warning | note
	Code     string `json:"code"`
	Summary  string `json:"summary"`
	Place    string `json:"place,omitempty"` // FILE:LINE
}

// Effect is the set of changes of a site on one machine, compared with its disk or with another site.
type Effect struct {
	Member   // the Source is "" for this machine
	Group    // of this machine alone; its Changes have names in place of the machine's own values
	Assumed  []Assumed
	Causes   []string             // inputs of the plans that differ; nil: not known, as of a disk
	Declares *[]rules.Declaration // in the Node's status.declaredFeatures; nil: not known
}

// signature identifies the effect: machines with equal signatures are in one group.
func (e Effect) signature() string {
	codes, contents := []string{}, []string{}
	for _, m := range e.Messages {
		codes = append(codes, m.Code)
	}
	slices.Sort(codes)

	for _, c := range e.Changes {
		contents = append(contents, c.Content)
	}

	codes = slices.Compact(codes)
	text, err := json.Marshal([]any{e.State, e.Changes, codes, contents})
	if err != nil {
		// Cannot happen: it has only texts.
		panic("fleet: encode an effect: " + err.Error())
	}

	return nodefile.Checksum(text)[:12]
}

// FailedToRead returns the effect of a recording that has no plan.
func FailedToRead(source string, err error) Effect {
	code := fault.CodeOf(err)
	page, _ := code.Page()

	return Effect{
		Member: Member{Source: source, Code: code, Reason: err.Error()},
		Group: Group{
			State:    Failed,
			Messages: []Message{{Severity: "error", Code: string(code), Summary: page.Title}},
		},
	}
}

// finish sorts changes, replaces the machine's own values, and adds the reports of a plan.
func (e *Effect) finish(p *evaluate.Plan, own names) {
	for _, a := range p.Assumed {
		e.Assumed = append(e.Assumed, Assumed{
			Kind: a.Kind,
			Name: a.Name,
			From: a.From,
		})
	}
	e.Code = origin.Code(p.Diagnostics)
	if e.Code != "" {
		e.State = Failed
		if e.Code == fault.Unread { // of the recording, not of the site
			e.State, e.Code = Unknown, ""
		}
		e.Changes = nil // a plan that failed is known up to its first error only
		e.Reason = describeFailure(p.Diagnostics)

		return
	}

	e.Declares = p.Declares
	e.Changes = own.replaceIn(e.Changes)
	e.State = Changed
	if len(e.Changes) == 0 {
		e.State = Unchanged
	}
}

// replaceIn returns changes with names in place of the machine's own values, sorted.
func (n names) replaceIn(changes []compare.NodeChange) []compare.NodeChange {
	for i, c := range changes {
		c.Name = n.replace(c.Name)
		c.From = n.replace(c.From)
		c.To = n.replace(c.To)
		c.Diff = n.replace(changedLines(c.Diff))
		if c.Action == "delete" || c.Action == "restore" { // the removed lines are those of this machine
			c.Diff = ""
		}
		c.Content = n.replace(c.Content)
		changes[i] = c
	}
	slices.SortFunc(changes, compare.NodeChange.Compare)

	return slices.Compact(changes)
}

// listMessages returns each distinct diagnostic once: the first of each code and summary, errors first.
func listMessages(diags hcl.Diagnostics, own names) (out []Message) {
	for _, d := range diags {
		m := newMessage(d, own)
		isSame := func(other Message) bool {
			return other.Code == m.Code && other.Summary == m.Summary
		}
		if !slices.ContainsFunc(out, isSame) {
			out = append(out, m)
		}
	}

	order := []string{"error", "warning", "note"}
	slices.SortStableFunc(out, func(a, b Message) int {
		return cmp.Or(
			slices.Index(order, a.Severity)-slices.Index(order, b.Severity),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Place, b.Place),
			cmp.Compare(a.Summary, b.Summary),
		)
	})

	return out
}

func newMessage(d *hcl.Diagnostic, own names) Message {
	return Message{
		Severity: origin.Severity(d),
		Code:     string(origin.CodeOf(d)),
		Summary:  own.replace(d.Summary),
		Place:    place(d),
	}
}

func place(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return ""
	}

	return placeAt(*d.Subject)
}

func placeAt(at hcl.Range) string {
	if at.Filename == "" {
		return ""
	}

	return fault.Place{File: at.Filename, Line: at.Start.Line}.String()
}

// describeFailure returns the first error in one line: place, summary and code.
func describeFailure(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if origin.Severity(d) != "error" {
			continue
		}
		text := d.Summary + " [" + string(origin.CodeOf(d)) + "]"
		if at := place(d); at != "" {
			text = at + ": " + text
		}

		return text
	}

	return ""
}
