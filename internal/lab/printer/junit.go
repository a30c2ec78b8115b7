package printer

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/model/origin"
)

// junitSuite is results as JUnit counts them.
type junitSuite struct {
	Name          string // the test file
	Tests, Failed int
	Took          time.Duration
	Results       []testfile.MachineResult
}

func (s *junitSuite) add(r testfile.MachineResult) {
	s.Tests++
	s.Took += r.Took
	s.Results = append(s.Results, r)
	if !r.Passed() {
		s.Failed++
	}
}

// JUnit writes results as the part of JUnit's XML that CI systems read: a suite for each test file, a case for each run
// and machine.
func JUnit(w io.Writer, all []testfile.MachineResult, redact func(string) string) error {
	var out struct {
		junitSuite
		Suites []junitSuite
	}
	for _, r := range all {
		i := slices.IndexFunc(out.Suites, func(s junitSuite) bool { return s.Name == r.File })
		if i < 0 {
			i = len(out.Suites)
			out.Suites = append(out.Suites, junitSuite{Name: r.File})
		}
		out.Suites[i].add(r)
		out.add(r)
	}

	t, err := template.New("junit.tmpl").Funcs(template.FuncMap{
		"escape":   func(v any) string { return escapeXML(redact(fmt.Sprint(v))) },
		"plain":    describePlain,
		"position": origin.Place,
		"seconds":  func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) },
	}).ParseFS(views, "views/junit.tmpl")
	if err != nil {
		return err
	}
	passActions(t.Root, "escape")

	return t.Execute(w, out)
}

func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder does not fail

	return b.String()
}

// TestAnnotations writes the failures of a result as GitHub's workflow commands, which it shows at the lines of a
// merge request. The errors of a plan are shown at the lines of the site.
func TestAnnotations(w io.Writer, r testfile.MachineResult) error {
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
	escapeProperty = strings.NewReplacer(
		"%",
		"%25",
		"\r",
		"%0D",
		"\n",
		"%0A",
		":",
		"%3A",
		",",
		"%2C",
	)
)

func (b *page) writeAnnotation(at hcl.Range, title, message string) {
	if message == "" {
		message = title
	}
	fmt.Fprintf(b, "::error file=%s,line=%d,col=%d,title=%s::%s\n",
		escapeProperty.Replace(at.Filename), at.Start.Line, at.Start.Column,
		escapeProperty.Replace(b.clean(title)), escapeMessage.Replace(b.clean(message)))
}
