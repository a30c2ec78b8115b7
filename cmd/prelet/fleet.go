package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report/printer"
)

// folderExit describes the exit status of a command over a folder of recordings, for its help.
const folderExit = "Exit status: the lowest of\nthose that failed, " +
	"so that a mistake in the site (10) is told before what failed on one machine."

// printRecording prints the heading of one recording of a folder. In JSON there is none.
func (a *cli) printRecording(source string, asJSON bool) {
	if !asJSON {
		fmt.Fprintf(a.stdout, "━━ %s\n\n", source)
	}
}

// showFailure prints why a command failed for one recording of a folder. In JSON each recording has its document.
func (a *cli) showFailure(source string, err error, asJSON bool) error {
	text := err.Error()
	if !strings.Contains(text, source) {
		text = source + ": " + text
	}
	fmt.Fprintln(a.stderr, "prelet:", a.redact(text))
	if !asJSON {
		return nil
	}
	return a.printDocument(func(o io.Writer) error { return failureJSON(o, source, toExitError(err)) })
}

// printPlans prints the sum of the plans over a folder.
func printPlans(w io.Writer, sum app.Plans) error {
	var b strings.Builder
	fmt.Fprintf(&b, "━━ %s: %d would change, %d failed, %d degraded",
		present.Count(sum.Recordings, "recording"), sum.Changed, len(sum.Failed), sum.Degraded)
	if sum.Incomplete > 0 {
		fmt.Fprintf(&b, ", %d not complete", sum.Incomplete)
	}
	fmt.Fprintf(&b, "; %s\n", present.Count(sum.Different, "different plan"))
	for _, f := range sum.Failed {
		fmt.Fprintf(&b, "   failed: %s (exit status %d)\n", f.Recording, f.Code.Exit())
	}

	_, err := io.WriteString(w, b.String())
	return err
}
