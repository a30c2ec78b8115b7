package printer

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/testfile"
)

// The elements of JUnit's XML that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"` // the test file
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class    string         `xml:"classname,attr"` // the test file
		Name     string         `xml:"name,attr"`      // the run and the machine
		File     string         `xml:"file,attr"`
		Line     int            `xml:"line,attr"`
		Time     string         `xml:"time,attr"`
		Failures []junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes results as JUnit's XML: a suite for each test file, a case for each run and machine.
func JUnit(w io.Writer, all []testfile.Result, redact func(string) string) error {
	var out junitSuites
	var total time.Duration
	took := map[string]time.Duration{}
	index := map[string]int{}
	for _, r := range all {
		i, isKnown := index[r.File]
		if !isKnown {
			i = len(out.Suites)
			index[r.File] = i
			out.Suites = append(out.Suites, junitSuite{Name: redact(r.File)})
		}

		suite := &out.Suites[i]
		suite.Cases = append(suite.Cases, newJUnitCase(r, redact))
		suite.Tests++
		out.Tests++
		if !r.Passed() {
			suite.Failures++
			out.Failures++
		}
		took[r.File] += r.Took
		total += r.Took
		suite.Time = junitTime(took[r.File])
	}
	out.Time = junitTime(total)

	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")

	return err
}

func newJUnitCase(r testfile.Result, redact func(string) string) junitCase {
	name := r.Run
	if r.Machine != "" {
		name += " [" + r.Machine + "]"
	}
	c := junitCase{
		Class: redact(r.File),
		Name:  redact(name),
		File:  redact(r.File),
		Line:  r.At.Start.Line,
		Time:  junitTime(r.Took),
	}
	for _, f := range r.Failures {
		c.Failures = append(c.Failures, junitFailure{
			Type:    f.Kind,
			Message: redact(f.Summary),
			Text:    redact(position(f.At) + "\n" + describePlain(f)),
		})
	}

	return c
}

// junitTime returns seconds.
func junitTime(d time.Duration) string {
	return fmt.Sprintf("%.3f", d.Seconds())
}

// TestAnnotations writes the failures of a result as GitHub's workflow commands, which it shows at the lines of a
// merge request. The errors of a plan are shown at the lines of the site.
func TestAnnotations(w io.Writer, r testfile.Result) error {
	b := page{}
	for _, f := range r.Failures {
		title := r.Run + " [" + r.Machine + "]: " + f.Summary
		b.writeAnnotation(f.At, title, describePlain(f))
		b.writeAnnotations(f.Errors)
	}

	return b.flush(w)
}

// DiagnosticAnnotations writes errors as GitHub's workflow commands.
func DiagnosticAnnotations(w io.Writer, ds hcl.Diagnostics) error {
	b := page{}
	b.writeAnnotations(ds)

	return b.flush(w)
}

func (b *page) writeAnnotations(ds hcl.Diagnostics) {
	for _, d := range ds {
		if d.Subject != nil && d.Severity == hcl.DiagError {
			title := d.Summary + " [" + string(origin.CodeOf(d)) + "]"
			b.writeAnnotation(*d.Subject, title, d.Detail)
		}
	}
}

// The characters that workflow commands escape in messages, and further ones in properties.
var (
	escapeMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapeProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (b *page) writeAnnotation(at hcl.Range, title, message string) {
	if message == "" {
		message = title
	}
	fmt.Fprintf(b, "::error file=%s,line=%d,col=%d,title=%s::%s\n",
		escapeProperty.Replace(at.Filename), at.Start.Line, at.Start.Column,
		escapeProperty.Replace(b.clean(title)), escapeMessage.Replace(b.clean(message)))
}
