package printer

import (
	"io"
	"strings"
	"text/template"

	"github.com/prelet/prelet/internal/app/doctor"
)

// indentFindings is the width of the columns before the text of a finding.
const indentFindings = 22

// Doctor writes findings and the conclusion. The subject is "node" or "image".
func Doctor(w io.Writer, subject string, found []doctor.Finding, s Style) error {
	return Findings(w, found, concludeFindings(subject, found), s)
}

// Findings writes a line for each finding, below those that are not fine their place, the reason and the next step, and
// a conclusion, which may be "".
func Findings(w io.Writer, found []doctor.Finding, conclusion string, s Style) error {
	paint := map[doctor.State]func(string) string{
		doctor.OK:      s.green,
		doctor.Warning: s.yellow,
		doctor.Problem: s.red,
		doctor.Unread:  s.dim,
		doctor.Skipped: s.dim,
	}
	data := struct {
		Findings   []doctor.Finding
		Conclusion string
	}{found, conclusion}

	return s.render(w, "findings", data, template.FuncMap{
		"details": func(f doctor.Finding) []string { return findingDetails(f, s) },
		"state":   func(state doctor.State) string { return paint[state](pad(string(state), 8)) },
		"trim":    func(text string) string { return strings.TrimSuffix(text, "\n") },
	})
}

// findingDetails returns the lines below a finding. Commands to paste are not broken.
func findingDetails(f doctor.Finding, s Style) (out []string) {
	where := f.Place
	step := ""
	if f.Code != "" {
		where = joinParts(" ", where, "["+string(f.Code)+"]")
	}
	if f.Do != "" {
		step = "→ " + f.Do
	}

	for _, l := range s.wrap(joinParts("\n", where, f.Why, step), s.Width-indentFindings) {
		if l != "" {
			out = append(out, l)
		}
	}

	return out
}

// concludeFindings returns the last sentence of the doctor.
func concludeFindings(subject string, found []doctor.Finding) string {
	count := map[doctor.State]int{}
	for _, f := range found {
		count[f.State]++
	}

	conclusion := "The " + subject + " is fit for a boot"
	if !doctor.Fit(found) {
		conclusion = "The " + subject + " is not fit for a boot: " + Count(count[doctor.Problem], "problem")
	}
	if n := count[doctor.Warning]; n > 0 {
		conclusion += ", " + Count(n, "warning")
	}
	if n := count[doctor.Unread]; n > 0 {
		conclusion += ", and " + Count(n, "check") + " could not be made"
	}

	if n := count[doctor.Skipped]; n > 0 {
		conclusion += "; " + Count(n, "check") + " need a running machine"
	}

	return conclusion + "."
}
