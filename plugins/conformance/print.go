package conformance

import (
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Print writes a report for people: a line a check, and below those that did not pass what was found and what to mend.
func (r Report) Print(w io.Writer) {
	name := contract.OneLine(r.Description.Name + " " + r.Description.Version)
	if name == "" {
		name = r.Program
	}
	fmt.Fprintf(w, "%s\n\n", name)
	for _, c := range r.Checks {
		fmt.Fprintf(w, "  %-8s %s\n", c.State, c.Title)
		if c.Found != "" {
			fmt.Fprintln(w, indent(c.Found))
		}
		if c.Mend != "" {
			fmt.Fprintln(w, indent("→ "+c.Mend))
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d to look at, %d skipped\n", r.Count(Passed), r.Count(Failed), r.Count(Note), r.Count(Skipped))
	if r.Stderr != "" && !r.OK() {
		fmt.Fprintf(w, "\nOn standard error it said:\n%s\n", indent(strings.TrimSpace(r.Stderr)))
	}
}

// indent writes lines for a terminal: they hold what a stranger's program said.
func indent(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = "           " + contract.OneLine(line)
	}

	return strings.Join(lines, "\n")
}
