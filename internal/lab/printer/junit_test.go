package printer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/testfile"
)

func testResults() []testfile.MachineResult {
	at := hcl.Range{
		Filename: "a.prelettest.hcl",
		Start:    hcl.Pos{Line: 3, Column: 5},
		End:      hcl.Pos{Line: 3, Column: 9},
	}

	return []testfile.MachineResult{
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

func TestJUnit(t *testing.T) {
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" time="1.000">
  <testsuite name="a.prelettest.hcl" tests="2" failures="1" time="1.000">
    <testcase classname="a.prelettest.hcl" name="one [dgx]" file="a.prelettest.hcl" line="3" time="1.000"></testcase>
    <testcase classname="a.prelettest.hcl" name="two [dgx]" file="a.prelettest.hcl" line="3" time="0.000">
      <failure type="assert" message="The condition is false">a.prelettest.hcl:3:5
100% &lt;wrong&gt;,&#xA;(sensitive)&#xA;got  &#34;a&#34;&#xA;want &#34;b&#34;</failure>
</testcase>
  </testsuite>
  <testsuite name="b.prelettest.hcl" tests="1" failures="0" time="0.000">
    <testcase classname="b.prelettest.hcl" name="three [vm]" file="b.prelettest.hcl" line="3" time="0.000"></testcase>
  </testsuite>
</testsuites>
`
	var b bytes.Buffer
	hide := func(s string) string { return strings.ReplaceAll(s, "secret", "(sensitive)") }
	must(t, JUnit(&b, testResults(), hide))
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
}

func TestWorkflowCommands(t *testing.T) {
	var b bytes.Buffer
	for _, r := range testResults() {
		must(t, TestAnnotations(&b, r))
	}
	want := "::error file=a.prelettest.hcl,line=3,col=5,title=two [dgx]%3A The condition is false::" +
		"100%25 <wrong>,%0Asecret%0Agot  \"a\"%0Awant \"b\"\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
