package conformance

import (
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// Print writes a report for people: a line for each check, followed by findings and how to fix them.
func (r Findings) Print(w io.Writer) {
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
		if c.Fix != "" {
			fmt.Fprintln(w, indent("→ "+c.Fix))
		}
	}

	const summary = "\n%d passed, %d failed, %d to look at, %d skipped\n"
	passed := r.Count(Passed)
	failed := r.Count(Failed)
	fmt.Fprintf(w, summary, passed, failed, r.Count(Note), r.Count(Skipped))

	stderr := strings.TrimSpace(r.Stderr)
	if r.Stderr != "" && failed > 0 {
		fmt.Fprintf(w, "\nStandard error of the detector:\n%s\n", indent(stderr))
	}
}

// indent indents lines, and removes control characters: the text may be output of the checked program.
func indent(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = "           " + contract.OneLine(line)
	}

	return strings.Join(lines, "\n")
}
