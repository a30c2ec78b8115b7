package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// State is the kind of an effect.
type State string

// The states, in the order in which groups are printed.
const (
	Changed   State = "changed"
	Unknown   State = "unknown"   // the recording lacks an answer, so there is no plan
	Unchanged State = "unchanged" // complete, without a change
	Failed    State = "failed"
)

// Change is one difference. From is "" for something new, To is "" for something removed.
type Change struct {
	Kind   string `json:"kind"` // label | taint | flag | config | file | activation | diagnostic
	Name   string `json:"name"`
	Action string `json:"action"` // create | update | delete | restore
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Diff   string `json:"diff,omitempty"` // of a file: its changed lines
	// Listed is set for a file of the kubelet whose difference is other changes: labels, taints, flags, fields.
	Listed bool `json:"listed,omitempty"`
}

// Message is one distinct diagnostic of a machine.
type Message struct {
	Severity string `json:"severity"` // error | warning | note
	Code     string `json:"code"`
	Summary  string `json:"summary"`
	Place    string `json:"place,omitempty"` // FILE:LINE
}

// Effect is the set of changes of a site on one machine, compared with its disk or with another site.
type Effect struct {
	Machine  // the Source is "" for this machine
	Group    // of this machine alone; its Changes have names in place of the machine's own values
	Assumed  []Assumed
	Declares *[]rules.Declaration // in the Node's status.declaredFeatures; nil: not known
	// hidden has a hash for each change of a file whose content is not shown: of its path and its planned text.
	hidden []string
}

// signature identifies the effect: machines with equal signatures are in one group.
func (e Effect) signature() string {
	codes := []string{}
	for _, m := range e.Messages {
		codes = append(codes, m.Code)
	}
	slices.Sort(codes)

	codes = slices.Compact(codes)
	hidden := slices.Sorted(slices.Values(e.hidden))
	text, err := json.Marshal([]any{e.State, e.Changes, codes, hidden})
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
		Machine: Machine{Source: source, Code: code, Reason: err.Error()},
		Group: Group{
			State:    Failed,
			Messages: []Message{{Severity: "error", Code: string(code), Summary: page.Title}},
		},
	}
}

// finish sorts changes, replaces the machine's own values, and adds the reports of a plan.
func (e *Effect) finish(p *boot.Plan, own names) {
	e.Degraded = count(len(p.Degraded) > 0)
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
	for i, c := range e.Changes {
		c.Name = own.replace(c.Name)
		c.From = own.replace(c.From)
		c.To = own.replace(c.To)
		c.Diff = own.replace(c.Diff)
		e.Changes[i] = c
	}
	e.Changes = sortedChanges(e.Changes)

	e.State = Changed
	if len(e.Changes) == 0 {
		e.State = Unchanged
	}
}

// hide adds the planned text of a file that is not shown to the signature. A placeholder replaces a secret.
func (e *Effect) hide(path, template string, own names) {
	e.hidden = append(e.hidden, nodefile.Checksum([]byte(path+"\x00"+own.replace(template))))
}

// sortedChanges returns each distinct change once, sorted.
func sortedChanges(changes []Change) []Change {
	return slices.Compact(slices.SortedFunc(slices.Values(changes), compareChanges))
}

// Kinds returns the kinds of changes in their order.
func Kinds() []string {
	return []string{"label", "taint", "flag", "config", "file", "activation", "diagnostic"}
}

// compareChanges sorts by kind in the order in which an operator reads, then by name.
func compareChanges(a, b Change) int {
	order := Kinds()

	return cmp.Or(
		slices.Index(order, a.Kind)-slices.Index(order, b.Kind),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Action, b.Action),
		cmp.Compare(a.From, b.From),
		cmp.Compare(a.To, b.To),
		cmp.Compare(a.Diff, b.Diff),
		cmp.Compare(fmt.Sprint(a.Listed), fmt.Sprint(b.Listed)),
	)
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
