package printer

import (
	"cmp"
	"io"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/prelet/prelet/internal/model/check"
)

// indentResults is the width of the columns before the text of a result.
const indentResults = 22

// Doctor writes results and the conclusion. The subject is "node" or "image".
func Doctor(w io.Writer, subject string, found []check.Finding, s Style) error {
	states := map[string]int{}
	for _, f := range found {
		states[string(f.State)]++
	}
	conclusion, err := part("conclusion", struct {
		Subject string
		IsFit   bool
		States  map[string]int // how many results have each
	}{subject, check.Fit(found), states})

	return cmp.Or(err, CheckResults(w, found, conclusion, s))
}

// CheckResults writes a line for each result, below those that are not fine their place, the reason and the next step,
// and a conclusion, which may be "".
func CheckResults(w io.Writer, found []check.Finding, conclusion string, s Style) error {
	paint := map[check.Level]func(string) string{
		check.OK:      s.green,
		check.Warning: s.yellow,
		check.Problem: s.red,
		check.Unread:  s.dim,
		check.Skipped: s.dim,
	}
	data := struct {
		Results    []check.Finding
		Conclusion string
	}{found, conclusion}

	return s.render(w, "results", data, template.FuncMap{
		"details": func(f check.Finding) []string { return resultDetails(f, s) },
		"state":   func(state check.Level) string { return paint[state](pad(string(state), 8)) },
		"trim":    func(text string) string { return strings.TrimSuffix(text, "\n") },
	})
}

// resultDetails returns the lines below a result. Commands to paste are not broken.
func resultDetails(f check.Finding, s Style) (out []string) {
	where := f.Place
	step := ""
	if f.Code != "" {
		where = joinParts(" ", where, "["+string(f.Code)+"]")
	}
	if f.Do != "" {
		step = "→ " + f.Do
	}

	for _, l := range s.wrap(joinParts("\n", where, f.Why, step), s.Width-indentResults) {
		if l != "" {
			out = append(out, l)
		}
	}

	return out
}
