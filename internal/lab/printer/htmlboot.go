package printer

import (
	"bytes"
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// BootView is a boot of one node: its plan, and the report of its last run.
type BootView struct {
	View
	Machine string         // the path of the machine in place of this one; "" for this one
	Held    string         // why a run would not apply the plan; "" where it would
	Status  *report.Status // nil without one
	NoTimes string         // why the timeline is missing; "" if Status has one
	Now     time.Time
}

// htmlMessage is a diagnostic, or a reason in the status.
type htmlMessage struct {
	fleet.Message
	Line, Detail string
}

// BootHTML writes the page of a boot.
func BootHTML(w io.Writer, v BootView, r *secret.Redactor) error {
	s := htmlStyle(r)
	v.Full = true
	node := texts.EscapeLine(nameNode(v))
	data := struct {
		BootView
		Node     string
		State    string // of the badge: a constant of package report, planned or invalid
		Sections []section
		Files    []evaluate.FileChange // those that change first
		Times    *htmlTimes
	}{BootView: v, Node: node, State: bootState(v)}
	if v.Status != nil && v.NoTimes == "" {
		data.Times = bootTimes(*v.Status)
	}
	if !v.Plan.Diagnostics.HasErrors() {
		data.Sections = s.listItems(v.Plan)
		data.Files = changedFirst(v.Plan.Changes)
	}

	return s.writePage(w, "boot.gohtml", "prelet: "+node, v.Version, data, template.FuncMap{
		"about":    v.describeFile,
		"base":     texts.EscapeLine,
		"devices":  pageDevices,
		"diff":     s.fileDiff,
		"effect":   describeEffect,
		"explain":  func(i explain.Item) (x explain.Explanation) { return explainItem(v.Plan, i) },
		"hasDiff":  v.hasDiff,
		"hidden":   compare.WhyHidden,
		"isSet":    func(t time.Time) bool { return !t.IsZero() },
		"lasted":   report.Span.Took,
		"left":     htmlTimes.Left,
		"messages": func() ([]htmlMessage, error) { return bootMessages(v) },
		"machine":  func(f *tape.Facts) ([][]string, error) { return factRows(*f, "machine") },
		"picture":  func() ([]pictureNode, error) { return drawMachine(v.Plan) },
		"place":    linkPlace,
		"reserved": reservedRows,
		"sign":     func(c evaluate.FileChange) string { return s.signOf(c) },
		"since":    func(from, to time.Time) time.Duration { return to.Sub(from) },
		"stamp":    func(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" },
		"link":     linkText,
		"took":     htmlTook,
		"reasons":  reasons,
		"width":    htmlTimes.Width,
	})
}

// nameNode returns the name of the node, or else of the recording.
func nameNode(v BootView) string {
	source := ""
	if v.Source != "" {
		source = filepath.Base(v.Source) // its folder is of the machine that makes the page
	}

	return cmp.Or(v.Plan.NodeName(), source, v.Machine, "This node")
}

// bootState returns the word of the badge: the state of the last run or, without a run, of the plan.
func bootState(v BootView) string {
	switch {
	case v.Status != nil && v.Status.State != "":
		return v.Status.State
	case v.Plan.Diagnostics.HasErrors():
		return report.Failed
	}

	return "planned"
}

// formatNumber returns a number; "" for 0.
func formatNumber(n int) string {
	if n == 0 {
		return ""
	}

	return strconv.Itoa(n)
}

// bootMessages returns the messages, errors first. Of the same severity the reasons in the status are first, then the
// diagnostics of the plan.
func bootMessages(v BootView) (out []htmlMessage, err error) {
	add := func(severity string, code fault.Code, summary string) {
		out = append(out, htmlMessage{Message: fleet.Message{
			Severity: severity,
			Code:     string(code),
			Summary:  summary,
		}})
	}
	if v.Held != "" {
		add("warning", "", "A run would change none of this: "+v.Held)
	}
	if st := v.Status; st != nil {
		if code := st.ErrorCode(); code != "" {
			add("error", code, st.Summary)
		}
		if st.Held != nil {
			add("warning", "", "The plan of the site is held: "+st.Held.Why)
		}
		for _, reason := range st.Degraded {
			add("warning", reason.Code, "Degraded: "+reason.Summary)
		}
		for _, reason := range st.Notes {
			add("note", reason.Code, origin.Capitalize(reason.Summary))
		}
	}

	for _, d := range slices.Backward(Sorted(v.Plan.Diagnostics)) {
		add(origin.Severity(d), origin.CodeOf(d), d.Summary)
		m := &out[len(out)-1]
		m.Detail = d.Detail
		if at := d.Subject; at != nil && at.Filename != "" {
			m.Place = origin.Place(*at).String()
			if site := v.Plan.Site; site != nil {
				m.Line = lineAt(site.Sources[at.Filename], *at)
			}
		}
	}
	for _, a := range v.Plan.Assumed {
		text, failed := part("assumed", a)
		err = cmp.Or(err, failed)
		add("note", "", "Assumed: "+text)
	}

	severities := []string{"error", "warning", "note"}
	slices.SortStableFunc(out, func(a, b htmlMessage) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})

	return out, err
}

// lineAt returns the first line of a range; "" if the text does not have it.
func lineAt(text []byte, r hcl.Range) string {
	lines := bytes.Split(text, []byte("\n"))
	if r.Start.Line < 1 || r.Start.Line > len(lines) {
		return ""
	}

	return strings.TrimSpace(string(lines[r.Start.Line-1]))
}

// explainItem returns the explanation of an item; an empty one where there is none.
func explainItem(p *evaluate.Plan, i explain.Item) (x explain.Explanation) {
	if p.Eval != nil {
		x, _ = explain.Explain(p, i)
	}

	return x
}

// changedFirst returns files, those that change first.
func changedFirst(changes []evaluate.FileChange) []evaluate.FileChange {
	isSame := func(c evaluate.FileChange) bool { return !c.Changes() }

	return slices.Concat(
		slices.DeleteFunc(slices.Clone(changes), isSame),
		slices.DeleteFunc(slices.Clone(changes), evaluate.FileChange.Changes),
	)
}

func (s Style) fileDiff(c evaluate.FileChange) string {
	return compare.Unified(s.clean(c.Old.Text), s.clean(c.File.Text.Template()))
}

// pageDevices returns the devices of a machine as tables.
func pageDevices(f *tape.Facts) (groups []group, err error) {
	for _, kind := range []string{"accelerators", "nics"} {
		of, failed := groupDevices(*f, kind)
		groups = append(groups, of...)
		err = cmp.Or(err, failed)
	}
	for _, kind := range []string{"disks", "interfaces"} {
		rows, failed := factRows(*f, kind)
		if len(rows) > 0 {
			groups = append(groups, group{Title: origin.Capitalize(kind), Rows: removeEmptyColumns(rows)})
		}
		err = cmp.Or(err, failed)
	}

	return groups, err
}
