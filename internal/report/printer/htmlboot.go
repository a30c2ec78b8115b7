package printer

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/app/compare"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/explain"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/report"
	"github.com/prelet/prelet/internal/world"
)

// BootView is a boot of one node: its plan, and the report of its last run.
type BootView struct {
	View
	Machine string         // the path of the machine in place of this one; "" for this one
	Held    string         // why a run would not apply the plan; "" where it would
	Status  *report.Status // nil without one
	NoTimes string         // why there is no timeline; "" where Status has one
	Now     time.Time
}

// bootPage is the page of a boot.
type bootPage struct {
	Node     safe
	State    string // of the badge: a constant of package report, planned or invalid
	Lead     safe
	Head     []htmlRow
	Messages []htmlMessage
	Times    *htmlTimes
	NoTimes  safe
	Items    []htmlItems
	Reserved []htmlRow
	Files    []htmlFile
	Effects  safe // what follows: files by action, and units
	Facts    *htmlFacts
}

// htmlRow is a name with its value.
type htmlRow struct{ Name, Value safe }

// htmlMessage is a diagnostic, or a reason in the status.
type htmlMessage struct {
	Severity                           string // error, warning or note
	Summary, Code, Place, Line, Detail safe
}

// htmlItems are the items of one kind: labels, taints, flags, fields.
type htmlItems struct {
	ID, Title string
	Items     []htmlItem
}

// htmlItem is a value of the node with its chain.
type htmlItem struct {
	Name, Note, Effect, Source safe
	Steps                      []htmlStep
}

// htmlStep is a step of a chain.
type htmlStep struct {
	Depth              int
	Text, Where, Place safe
}

// htmlFile is a managed file with what changes in it.
type htmlFile struct {
	Action, Sign string // of boot.Change
	Path, Note   safe
	Lines        []htmlLine
	Hidden       string // why the difference is not shown; "" where it is
}

// htmlLine is a line of a difference.
type htmlLine struct {
	Class string
	Text  safe
}

// BootHTML writes the page of a boot.
func BootHTML(w io.Writer, v BootView, r *value.Redactor) error {
	s := htmlStyle(r)
	p := v.Plan
	page := bootPage{
		Node:     s.safe(value.VisibleLine(nameNode(v))),
		State:    bootState(v),
		Lead:     s.safe(describeBoot(v)),
		Head:     s.bootHead(v),
		Messages: s.bootMessages(v),
		NoTimes:  s.safe(v.NoTimes),
	}
	if v.Status != nil && v.NoTimes == "" {
		page.Times = s.bootTimes(*v.Status)
	}
	if !p.Diagnostics.HasErrors() {
		page.Items = s.bootItems(p)
		page.Reserved = s.htmlRows(reservedRows(p.Node.Reserved))
		page.Files = s.bootFiles(p)
		page.Effects = s.safe(summarizePlan(v.View))
	}
	if p.Facts != nil {
		page.Facts = s.htmlFacts(*p.Facts)
	}

	return writeHTML(w, "boot.gohtml", htmlPage{
		Title:   "prelet: " + page.Node,
		Version: s.safe(v.Version),
		Body:    page,
	})
}

// nameNode returns the name of the node, or else of the recording.
func nameNode(v BootView) string {
	for _, f := range v.Plan.Node.Flags {
		if f.Name == "hostname-override" && f.Value != "" {
			return f.Value
		}
	}
	if id := v.Plan.Kubelet.Identity; id != nil && id.Node+id.Host != "" {
		return cmp.Or(id.Node, id.Host)
	}

	if v.Source != "" {
		return filepath.Base(v.Source) // its folder is of the machine that makes the page
	}

	return cmp.Or(v.Machine, "This node")
}

// bootState returns the word of the badge: the state of the last run, or without one that of the plan.
func bootState(v BootView) string {
	switch {
	case v.Status != nil && v.Status.State != "":
		return v.Status.State
	case v.Plan.Diagnostics.HasErrors():
		return report.Failed
	case !v.Plan.Complete:
		return "unknown"
	}

	return "planned"
}

// describeBoot returns the page's first sentences: how the last run ended, and whether the site can be planned.
func describeBoot(v BootView) string {
	ended := ""
	if v.Status != nil && v.Status.Summary != "" {
		ended = upperFirst(v.Status.Summary) + "."
	}
	switch {
	case v.Plan.Diagnostics.HasErrors():
		return joinParts(" ", ended, "The site cannot be planned on this node: see the messages.")
	case ended == "":
		return summarizePlan(v.View)
	}

	return ended
}

// summarizePlan returns the changes of the next run, in a line.
func summarizePlan(v View) string {
	switch {
	case v.Changes():
		return "A run would change files: " + countChanges(v.Plan.Changes) + "." + describeUnits(v.Plan)
	case !v.Plan.Complete:
		return "None of the files that could be compared would change. The plan is not complete."
	}

	return "Every file is as planned."
}

// bootHead returns the facts about the run and the plan.
func (s Style) bootHead(v BootView) []htmlRow {
	rows := [][]string{}
	if st := v.Status; st != nil && st.State != "" {
		ended := ""
		if st.Finished != nil {
			ended = fmt.Sprintf("%s, after %s", formatTime(*st.Finished), htmlTook(st.Finished.Sub(st.Started)))
		}
		rows = append(rows,
			[]string{"run started", formatTime(st.Started)},
			[]string{"run ended", ended},
			[]string{"generation in place", formatNumber(st.Generation)},
			[]string{"verdict", joinParts(": ", st.Verdict, st.Why)},
			[]string{"boot id", st.BootID},
		)
	} else {
		rows = append(rows, []string{"generation in place", formatNumber(v.Generation)})
	}
	rows = append(rows,
		[]string{"recording", value.VisibleLine(v.Source)},
		[]string{"planned", formatTime(v.Now)},
		[]string{"plan", v.Plan.Hash},
		[]string{"kubelet", textOf(v.Plan.Kubelet.Version)},
	)
	rows = slices.DeleteFunc(rows, func(row []string) bool {
		return row[1] == ""
	})

	return s.htmlRows(rows)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}

	return t.UTC().Format(time.DateTime) + " UTC"
}

// formatNumber returns a number; "" for 0.
func formatNumber(n int) string {
	if n == 0 {
		return ""
	}

	return fmt.Sprint(n)
}

func (s Style) htmlRows(rows [][]string) (out []htmlRow) {
	for _, row := range rows {
		out = append(out, htmlRow{s.safe(row[0]), s.safe(row[1])})
	}

	return out
}

// bootMessages returns the messages, errors first. Of the same severity the reasons in the status are first, then the
// diagnostics of the plan.
func (s Style) bootMessages(v BootView) (out []htmlMessage) {
	add := func(severity, code, summary string) {
		out = append(out, htmlMessage{
			Severity: severity,
			Code:     s.safe(code),
			Summary:  s.safe(summary),
		})
	}
	if v.Held != "" {
		add("warning", "", "A run would change none of this: "+v.Held)
	}
	if st := v.Status; st != nil {
		if code := st.ErrorCode(); code != "" {
			add("error", string(code), st.Summary)
		}
		if st.Held != nil {
			add("warning", "", "The plan of the site is held: "+st.Held.Why)
		}
		for _, reason := range st.Degraded {
			add("warning", reason.Code, "Degraded: "+reason.Summary)
		}
		for _, reason := range st.Notes {
			add("note", reason.Code, upperFirst(reason.Summary))
		}
	}

	sorted := Sorted(v.Plan.Diagnostics)
	slices.Reverse(sorted)
	for _, d := range sorted {
		out = append(out, s.htmlDiagnostic(v.Plan, d))
	}
	for _, a := range v.Plan.Assumed {
		add("note", "", "Assumed: "+describeAssumed(a))
	}
	for _, u := range v.Plan.Unread {
		add("warning", "", "Unread: "+describeUnread(u))
	}

	severities := []string{"error", "warning", "note"}
	slices.SortStableFunc(out, func(a, b htmlMessage) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})

	return out
}

func (s Style) htmlDiagnostic(p *boot.Plan, d *hcl.Diagnostic) htmlMessage {
	m := htmlMessage{
		Severity: severity(d),
		Summary:  s.safe(d.Summary),
		Code:     s.safe(string(origin.CodeOf(d))),
		Detail:   s.safe(d.Detail),
	}
	if at := d.Subject; at != nil && at.Filename != "" {
		m.Place = s.safe(position(*at))
		if p.Site != nil {
			m.Line = s.safe(lineAt(p.Site.Sources[at.Filename], *at))
		}
	}

	return m
}

// lineAt returns the first line of a range; "" if the text does not have it.
func lineAt(text []byte, r hcl.Range) string {
	lines := bytes.Split(text, []byte("\n"))
	if r.Start.Line < 1 || r.Start.Line > len(lines) {
		return ""
	}

	return strings.TrimSpace(string(lines[r.Start.Line-1]))
}

// bootItems returns the items of a plan with their chains.
func (s Style) bootItems(p *boot.Plan) (out []htmlItems) {
	for _, c := range s.listItems(p) {
		list := htmlItems{ID: c.ID, Title: c.Title}
		for _, i := range c.Items {
			list.Items = append(list.Items, s.htmlItem(p, i.Item, i.Text, i.Note))
		}
		if len(list.Items) > 0 {
			out = append(out, list)
		}
	}

	return out
}

// htmlItem returns an item with its chain.
func (s Style) htmlItem(p *boot.Plan, i explain.Item, text, note string) htmlItem {
	out := htmlItem{Name: s.safe(text), Note: s.safe(note)}
	if p.Eval == nil {
		return out
	}
	x, isKnown := explain.Explain(p, i)
	if !isKnown {
		return out
	}

	if effect := describeEffect(x); effect != "" {
		out.Effect = s.safe("Takes effect " + effect)
	}
	if x.Range.Filename != "" {
		out.Source = s.safe(x.Text)
	}
	for _, step := range x.Chain {
		out.Steps = append(out.Steps, htmlStep{
			Depth: min(step.Depth, 6),
			Text:  s.safe(stepText(step)),
			Where: s.safe(step.Note),
			Place: s.safe(stepPlace(step)),
		})
	}

	return out
}

// bootFiles returns the managed files with what changes in them, those that change first.
func (s Style) bootFiles(p *boot.Plan) (out []htmlFile) {
	changes := slices.Clone(p.Changes)
	slices.SortStableFunc(changes, func(a, b boot.Change) int {
		return rank(a.Changes()) - rank(b.Changes())
	})
	for _, c := range changes {
		f := htmlFile{
			Action: c.Action,
			Sign:   signOf(c, s),
			Path:   s.safe(c.File.Path),
			Note:   s.safe(describeChange(p, c)),
		}
		switch {
		case !hasDiff(c):
		case c.Old.Private:
			f.Hidden = "Readable by root only, or with a secret in it: not shown."
		default:
			before := s.clean(c.Old.Text)
			after := s.clean(c.File.Text.Template())
			f.Lines = s.htmlLines(compare.Unified(before, after))
		}
		out = append(out, f)
	}
	for _, path := range p.Unjudged {
		out = append(out, htmlFile{Action: "unknown", Sign: "?", Path: s.safe(path),
			Note: "unknown: it depends on what is unread"})
	}

	return out
}

func rank(isFirst bool) int {
	if isFirst {
		return 0
	}

	return 1
}

// maxHTMLLines bounds the difference of one file on a page.
const maxHTMLLines = 2000

// htmlLines returns the lines of a difference.
func (s Style) htmlLines(diff string) (out []htmlLine) {
	for _, l := range splitLines(diff) {
		class := ""
		switch l[0] {
		case '+':
			class = "add"
		case '-':
			class = "del"
		case '@':
			class = "hunk"
		}
		if len(out) == maxHTMLLines {
			return append(out, htmlLine{Class: "hunk", Text: "… (prelet plan -o json has all of it)"})
		}
		out = append(out, htmlLine{Class: class, Text: s.safe(l)})
	}

	return out
}

// htmlFacts are the facts of a machine.
type htmlFacts struct {
	Machine         []htmlRow
	Devices         []htmlDevices
	Failed, Unknown []htmlRow
}

// htmlDevices are devices of one kind as a table.
type htmlDevices struct {
	Title, Note safe
	Rows        [][]safe
}

func (s Style) htmlFacts(f world.Facts) *htmlFacts {
	out := &htmlFacts{Machine: s.htmlRows(machineRows(f))}
	for _, g := range slices.Concat(groupAccelerators(f), groupNICs(f)) {
		title := g.title[0]
		if n := len(g.rows); n > 1 {
			title = fmt.Sprintf("%d × %s", n, title)
		}
		out.addDevices(s, title, joinParts(", ", g.title[1:]...), g.rows)
	}
	out.addDevices(s, "Disks", "", diskRows(f.BlockDevices))
	out.addDevices(s, "Interfaces", "", interfaceRows(f.Interfaces))
	failed, unknown := reasons(f.Unknown)
	out.Failed = s.htmlRows(failed)
	out.Unknown = s.htmlRows(unknown)

	return out
}

func (f *htmlFacts) addDevices(s Style, title, note string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	d := htmlDevices{Title: s.safe(title), Note: s.safe(note)}
	for _, row := range removeEmptyColumns(rows) {
		d.Rows = append(d.Rows, s.safeAll(row))
	}
	f.Devices = append(f.Devices, d)
}
