package manual

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const markdown = "# Blocks\n" +
	"A *site* has `blocks` and **more**; see [here](x.md#y).\n" +
	".hcl is 'the' name, and C:\\new~1 -o`.\n" +
	"\n" +
	"- [`prelet`](#prelet)\n" +
	"- one `item`\n" +
	"\n" +
	"## `prelet`\n" +
	"```hcl\n.dot { \\n }\n```\n" +
	"| argument | type | default | |\n|---|---|---|---|\n" +
	"| `name` | string | **required** | Its `a \\| b`. |\n" +
	"| `path` | string | |  |\n" +
	"\n" +
	"| status | means | fixed by |\n|---|---|---|\n" +
	"| [0](#0) | Done. | - |\n"

const roff = `.TH "PRELET-X" "8" "Mar 2026" "prelet 0.1.0" "prelet"
.nh
.ad l
.SH NAME
prelet\-x \- what it does
.SH BLOCKS
A *site* has \fBblocks\fR and \fBmore\fR; see here.
\&.hcl is \(aqthe\(aq name, and C:\enew\(ti1 \-o\(ga.
.PP
.IP \(bu 2
one \fBitem\fR
.PP
.SS prelet
.PP
.RS 2
.nf
\&.dot { \en }
.fi
.RE
.TP
\fBname\fR (type string, default \fBrequired\fR)
Its \fBa | b\fR.
.TP
\fBpath\fR (type string)

.PP
.TP
\fB0\fR
Done.
`

func TestPage(t *testing.T) {
	p := Page{
		Name:    "prelet-x",
		Section: 8,
		Short:   "what it does",
		Date:    time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		Version: "prelet 0.1.0",
	}
	p.AddText(markdown)
	if diff := cmp.Diff(roff, p.String()); diff != "" {
		t.Errorf("the page as roff differs (-want +got):\n%s", diff)
	}
}

// A block of code without an end goes to the end of the text, and no line of a description is a request.
func TestPageOfUnusualText(t *testing.T) {
	p := Page{Name: "x", Section: 5}
	p.AddText("```sh\n.a")
	p.AddItem("--flag", "one\n.two\n'three")
	for _, want := range []string{".nf\n\\&.a\n.fi\n", "one\n\\&.two\n\\&'three\n"} {
		if got := p.String(); !strings.Contains(got, want) {
			t.Errorf("page: got\n%s\nwant it to contain %q", got, want)
		}
	}
}

// A page shows each character of its text, whatever it means to roff.
func TestEveryCharacterIsShown(t *testing.T) {
	man, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed: apt-get install groff-base")
	}

	const text = `.TH \fB\n[x] 'quoted' "double" a-b --flag ~ ^ \\ %s \(aq`
	p := Page{Name: "x", Section: 5}
	p.AddLiteral([]string{text})
	c := exec.Command(man, "-man", "-Tutf8", "-P-c")
	c.Stdin = strings.NewReader(p.String())
	out, err := c.Output()
	if err != nil {
		t.Fatalf("groff: got %v, want none", err)
	}
	if !strings.Contains(string(out), text) {
		t.Errorf("the page: got\n%s\nwant it to contain %s", out, text)
	}
}
