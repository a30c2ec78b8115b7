package present

import (
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/internal/app/doctor"
)

// Doctor prints findings, a line for each, with what there is to say below those that are not fine.
func Doctor(w io.Writer, found []doctor.Finding, s Style) error {
	var b strings.Builder
	count := map[doctor.State]int{}
	for _, f := range found {
		count[f.State]++
		paint := map[doctor.State]func(string) string{doctor.OK: s.green, doctor.Warning: s.yellow, doctor.Problem: s.red, doctor.Unread: s.dim}[f.State]
		fmt.Fprintf(&b, "%s %s ", paint(pad(string(f.State), 8)), s.bold(pad(f.Check, 12)))
		const indent = 22
		for i, line := range s.wrap(f.Summary, s.Width-indent) {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", indent))
			}
			b.WriteString(line + "\n")
		}
		if f.State == doctor.OK && f.Why == "" {
			continue
		}
		where := f.Place
		if f.Code != "" {
			where = strings.TrimSpace(where + " [" + string(f.Code) + "]")
		}
		for _, part := range []string{where, f.Why, todo(f.Do)} {
			for _, para := range strings.Split(part, "\n") {
				if para == "" {
					continue
				}
				lines := []string{para}
				if !strings.HasPrefix(para, verbatim) {
					lines = s.wrap(para, s.Width-indent)
				}
				for _, line := range lines {
					b.WriteString(strings.Repeat(" ", indent) + line + "\n")
				}
			}
		}
	}
	end := "Nothing stands in the way of a boot"
	if !doctor.Fit(found) {
		end = "A boot would not end well: " + Count(count[doctor.Problem], "problem")
	}
	if n := count[doctor.Warning]; n > 0 {
		end += ", " + Count(n, "warning")
	}
	if n := count[doctor.Unread]; n > 0 {
		end += ", and " + Count(n, "thing") + " that could not be looked at"
	}
	b.WriteString("\n" + strings.Join(s.wrap(end+".", s.Width), "\n") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func todo(do string) string {
	if do == "" {
		return ""
	}
	return "→ " + do
}
