package printer

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/insight/testfile"
)

func testResults() []testfile.Result {
	at := hcl.Range{
		Filename: "a.prelettest.hcl",
		Start:    hcl.Pos{Line: 3, Column: 5},
		End:      hcl.Pos{Line: 3, Column: 9},
	}

	return []testfile.Result{
		{File: "a.prelettest.hcl", Run: "one", Machine: "dgx", At: at, Took: time.Second},
		{File: "a.prelettest.hcl", Run: "two", Machine: "dgx", At: at, Failures: []testfile.Failure{{
			Kind:    testfile.KindAssert,
			At:      at,
			Summary: "The condition is false",
			Message: "100% <wrong>,\nsecret",
			Got:     `"a"`,
			Want:    `"b"`,
		}}},
		{File: "b.prelettest.hcl", Run: "three", Machine: "vm", At: at},
	}
}

// TestJUnit reads the report as a CI system does.
func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	hide := func(s string) string { return strings.ReplaceAll(s, "secret", "(sensitive)") }
	if err := JUnit(&b, testResults(), hide); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "secret") {
		t.Errorf("got a secret in the report:\n%s", b.String())
	}

	var got struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Suites   []struct {
			Name  string  `xml:"name,attr"`
			Tests int     `xml:"tests,attr"`
			Time  float64 `xml:"time,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Line    int    `xml:"line,attr"`
				Failure *struct {
					Type    string `xml:"type,attr"`
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if got.Tests != 3 || got.Failures != 1 || len(got.Suites) != 2 || got.Suites[0].Tests != 2 {
		t.Fatalf("got %+v; want 3 tests in 2 suites, 1 failure", got)
	}
	if got.Suites[0].Time != 1 {
		t.Errorf("time of the first suite: got %v, want 1", got.Suites[0].Time)
	}
	passed, failed := got.Suites[0].Cases[0], got.Suites[0].Cases[1]
	if passed.Failure != nil || passed.Name != "one [dgx]" || passed.Line != 3 {
		t.Errorf("first case: got %+v, want one [dgx] at line 3 without a failure", passed)
	}
	if f := failed.Failure; f == nil || f.Type != "assert" || f.Message != "The condition is false" ||
		!strings.Contains(f.Text, "100% <wrong>") || !strings.Contains(f.Text, `got  "a"`) {
		t.Errorf("second case: got failure %+v, want the assert with its message and values", failed.Failure)
	}
}

func TestWorkflowCommands(t *testing.T) {
	var b bytes.Buffer
	for _, r := range testResults() {
		if err := TestAnnotations(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	want := "::error file=a.prelettest.hcl,line=3,col=5,title=two [dgx]%3A The condition is false::" +
		"100%25 <wrong>,%0Asecret%0Agot  \"a\"%0Awant \"b\"\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
