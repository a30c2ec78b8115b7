package printer

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/lab/compare"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/model/origin"
)

// TestSum counts the results of tests.
type TestSum struct {
	Runs   int // that were selected
	Passed int // results
	Failed int // results
	Took   time.Duration
}

// TestText writes one result for people: a line, and its failures with their places in the test file and the site.
func TestText(w io.Writer, sources map[string][]byte, r testfile.MachineResult, s Style) error {
	b := page{Style: s}
	word := b.green("pass")
	if !r.Passed() {
		word = b.red("FAIL")
	}
	run := b.bold(b.cell(r.Run))
	machine := b.dim(b.cell(r.Machine))
	between := "  "
	if columns("FAIL  "+r.File+"  "+r.Run+"  "+r.Machine) > s.Width {
		between = "\n      "
	}
	fmt.Fprintln(&b, strings.Join([]string{word + "  " + b.cell(r.File), run, machine}, between))
	for _, note := range r.Notes {
		b.writeText("      ", note)
	}
	if r.Passed() {
		return b.flush(w)
	}

	b.writeLine("")
	for _, f := range r.Failures {
		b.writeFailure(sources, f)
		for _, d := range f.Errors {
			b.writeDiagnostic(sources, d, d.Detail)
		}
	}

	return b.flush(w)
}

// writeFailure writes a failure as a diagnostic, and below it the values and the difference.
func (b *page) writeFailure(sources map[string][]byte, f testfile.Failure) {
	b.writeHeading("Failed:", b.red, &hcl.Diagnostic{
		Summary: f.Summary,
		Extra:   origin.Extra{Code: fault.TestFailed},
	})
	fmt.Fprintf(b, "  %s\n", b.cell(origin.Place(f.At).String()))
	b.writeSnippet(sources[f.At.Filename], f.At, b.red)
	if f.Message != "" {
		b.writeText("  ", f.Message)
	}
	for _, line := range describeFailure(f) {
		b.writeLine("    " + b.clean(line))
	}
	b.writeLine("")
}

// maxValueLines is how many lines of one value are shown, and maxTestDiff of one difference.
const (
	maxValueLines = 12
	maxTestDiff   = 60
)

// describeFailure returns the values of a failure and its difference, by line.
func describeFailure(f testfile.Failure) (lines []string) {
	for _, v := range f.Values {
		lines = append(lines, assign(v.Name, v.Text)...)
	}

	isBrief := !strings.Contains(f.Got+f.Want, "\n")
	switch {
	case f.Got == "" && f.Want == "":
	case isBrief:
		lines = append(lines, "got  "+f.Got, "want "+f.Want)
	default:
		lines = append(lines, "--- want", "+++ got")
		lines = append(lines, shorten(compare.Unified(endLine(f.Want), endLine(f.Got)), maxTestDiff)...)
	}

	return lines
}

// assign returns a name and its value, which may have several lines.
func assign(name, text string) []string {
	lines := shorten(text, maxValueLines)
	lines[0] = name + " = " + lines[0]

	return lines
}

// shorten returns at most limit lines of a text, and how many are left out.
func shorten(text string, limit int) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) <= limit {
		return lines
	}

	return append(lines[:limit:limit], fmt.Sprintf("… %s more", Count(len(lines)-limit, "line")))
}

func endLine(text string) string {
	return strings.TrimSuffix(text, "\n") + "\n"
}

// TestSumText writes the last line of the tests for people.
func TestSumText(w io.Writer, sum TestSum, s Style) error {
	b := page{Style: s}
	text := fmt.Sprintf("%d passed, %d failed", sum.Passed, sum.Failed)
	if sum.Failed > 0 {
		text = b.red(text)
	}
	fmt.Fprintf(&b, "%s; %s.\n", text, Count(sum.Runs, "run"))

	return b.flush(w)
}

// describePlain returns a failure as plain text of several lines, for other programs.
func describePlain(f testfile.Failure) string {
	lines := []string{}
	if f.Message != "" {
		lines = append(lines, f.Message)
	}
	if f.Source != "" {
		lines = append(lines, "condition = "+f.Source)
	}
	lines = append(lines, describeFailure(f)...)
	for _, d := range f.Errors {
		line := fmt.Sprintf("%s [%s]: %s", d.Summary, origin.CodeOf(d), d.Detail)
		if d.Subject != nil {
			line = origin.Place(*d.Subject).String() + ": " + line
		}
		lines = append(lines, line)
	}

	return strings.Join(lines, "\n")
}

type testsDocument struct {
	FormatVersion int              `json:"format_version"`
	Passed        int              `json:"passed"`
	Failed        int              `json:"failed"`
	TookMillis    int64            `json:"took_ms"`
	Results       []resultDocument `json:"results"`
	// Diagnostics are mistakes in the test files and sites. With errors, no test was run.
	Diagnostics []Diagnostic `json:"diagnostics"`
}

type resultDocument struct {
	testfile.MachineResult
	Range      *origin.JSONRange `json:"range,omitempty"`
	Passed     bool              `json:"passed"`
	TookMillis int64             `json:"took_ms"`
	Failures   []failureDocument `json:"failures"`
}

type failureDocument struct {
	testfile.Failure
	Range       *origin.JSONRange `json:"range,omitempty"`
	Diagnostics []Diagnostic      `json:"diagnostics,omitempty"` // of the plan
}

// TestsDocument returns all results as a document of format version 1.
func TestsDocument(all []testfile.MachineResult, sum TestSum, found hcl.Diagnostics) any {
	d := testsDocument{
		FormatVersion: 1,
		Passed:        sum.Passed,
		Failed:        sum.Failed,
		TookMillis:    sum.Took.Milliseconds(),
		Results:       []resultDocument{},
		Diagnostics:   DiagnosticsJSON(Sorted(found)),
	}
	for _, r := range all {
		one := resultDocument{
			MachineResult: r,
			Range:         origin.RangeJSON(r.At),
			Passed:        r.Passed(),
			TookMillis:    r.Took.Milliseconds(),
			Failures:      []failureDocument{},
		}
		for _, f := range r.Failures {
			one.Failures = append(one.Failures, failureDocument{
				Failure:     f,
				Range:       origin.RangeJSON(f.At),
				Diagnostics: DiagnosticsJSON(f.Errors),
			})
		}
		d.Results = append(d.Results, one)
	}

	return d
}
