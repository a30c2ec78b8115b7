package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/present"
)

// folderExit is what the commands that take a folder of recordings say of their exit status.
const folderExit = "Exit status: the lowest of\nthose that failed, so that a mistake in the site (10) is told before what failed on one machine."

// lowest is the exit status of a command over several recordings: the smallest of those that failed. The classes are numbered
// from the site outwards (10 the site, 20 the cluster, 30 the machine, 40 the disk), and what is nearest to the site is
// mended first. 0 where none failed.
func lowest(codes []int) int {
	failed := slices.DeleteFunc(slices.Clone(codes), func(c int) bool { return c == 0 })
	if len(failed) == 0 {
		return 0
	}
	return slices.Min(failed)
}

// tally adds up the plans over a folder of recordings.
type tally struct {
	codes             []int // one for each recording
	changed, degraded int
	plans             map[string]bool // hashes
	failed            []string        // recordings, with what they ended in
	incomplete        int             // evaluated, but the recording lacks an answer
}

// add counts one recording. The view has no plan where the recording could not be read.
func (t *tally) add(name string, v present.View, code int) {
	t.codes = append(t.codes, code)
	if code != 0 {
		t.failed = append(t.failed, fmt.Sprintf("%s (exit status %d)", name, code))
		return
	}
	if len(v.Plan.Degraded) > 0 {
		t.degraded++
	}
	if !v.Plan.Complete { // whether it would change is not told
		t.incomplete++
		return
	}
	if v.Changes() {
		t.changed++
	}
	t.plans[v.Plan.Hash] = true
}

// failedOne tells what one recording of a folder failed of; for programs there is one document for each of them.
func (a *cli) failedOne(source string, x exitError, asJSON bool) error {
	if x.err == nil { // told with its plan
		return nil
	}
	said := x.err.Error()
	if !strings.Contains(said, source) {
		said = source + ": " + said
	}
	fmt.Fprintln(a.stderr, "prelet:", a.redact(said))
	if !asJSON {
		return nil
	}
	return a.print(func(o io.Writer) error { return failureJSON(o, source, x) })
}

func (t *tally) exit() int { return lowest(t.codes) }

func (t *tally) text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "━━ %s: %d would change, %d failed, %d degraded", present.Count(len(t.codes), "recording"), t.changed, len(t.failed), t.degraded)
	if t.incomplete > 0 {
		fmt.Fprintf(&b, ", %d not complete", t.incomplete)
	}
	fmt.Fprintf(&b, "; %s\n", present.Count(len(t.plans), "different plan"))
	for _, f := range t.failed {
		fmt.Fprintf(&b, "   failed: %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
