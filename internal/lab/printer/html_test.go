package printer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/table"
)

// The secret has characters that HTML escapes: it must be hidden before it is escaped.
const htmlSecret = "s3cr3t<&'+canary"

// A text as a recording could have it.
const htmlHostile = "\"><script>hacked=1</script>\u202egnp " + htmlSecret

func htmlRedactor() *secret.Redactor {
	r := secret.NewRedactor()
	r.Add([]byte(htmlSecret))

	return r
}

// checkPage checks what is the same for all pages: one style and one script, whose hashes are in the policy, no other
// place that loads or runs something, and the hostile text only as escaped characters.
func checkPage(t *testing.T, page string) {
	t.Helper()
	wantTimes(t, page, map[string]int{"<script": 1, "<style": 1, "<link": 1, "<img": 0, "<iframe": 0, "style=": 0})
	for _, element := range []string{"style", "script"} {
		text := regexp.MustCompile(`(?s)<` + element + `>(.*)</` + element + `>`).FindStringSubmatch(page)
		if len(text) != 2 {
			t.Fatalf("page: got no %s, want one", element)
		}
		hash := strings.ReplaceAll(hashSource([]byte(text[1])), "+", "&#43;")
		if !strings.Contains(page, strings.ReplaceAll(hash, "'", "&#39;")) {
			t.Errorf("policy: got no hash of the %s, want %s", element, hash)
		}
	}
	for _, refused := range []string{"canary", "\u202e", " onerror", "http://", "https://"} {
		if strings.Contains(page, refused) {
			t.Errorf("page: got %q, want none", refused)
		}
	}
	if !strings.Contains(page, `&gt;&lt;script&gt;hacked=1&lt;/script&gt;\u202egnp (sensitive)`) {
		t.Error("page: got no hostile text, want it escaped, with the secret hidden")
	}
	if open, closed := strings.Count(page, "<details"), strings.Count(page, "</details>"); open != closed {
		t.Errorf("page: got %d <details> and %d </details>, want equal numbers", open, closed)
	}
}

// wantIn checks that a page has each of these texts.
func wantIn(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("page: got none of %q, want it", want)
		}
	}
}

// wantTimes checks how often a page has each of these texts.
func wantTimes(t *testing.T, page string, wants map[string]int) {
	t.Helper()
	for text, want := range wants {
		if got := strings.Count(page, text); got != want {
			t.Errorf("page: got %d times %s, want %d", got, text, want)
		}
	}
}

func TestBootHTML(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	span := func(kind, name string, at, took time.Duration) report.Span {
		return report.Span{Kind: kind, Name: name, Start: began.Add(at), Micros: took.Microseconds()}
	}
	hardware := span(report.KindHardware, "the hardware", 0, 400*time.Millisecond)
	hardware.Stage = "detect-hw.node"
	ended := began.Add(2 * time.Second)
	v := BootView{
		View: View{Version: "1.2.3", Plan: &evaluate.Plan{
			Complete: true,
			Hash:     "sha256:abc",
			Diagnostics: hcl.Diagnostics{origin.Warning(fault.NullFact,
				hcl.Range{Filename: "site.hcl", Start: hcl.Pos{Line: 3, Column: 1}}, "a warning", "its reason")},
			Node: desired.Node{Labels: []desired.Label{{Key: "rack", Value: htmlHostile}}},
			Changed: evaluate.Changed{Changes: []evaluate.FileChange{{Action: "create", File: desired.File{Path: "/etc/x", Kind: desired.Regular, Purpose: "file",
				Text: secret.PlainText(htmlHostile + "\n")}}}},
			Trace: evaluate.Trace{Facts: &tape.Facts{Unknown: []tape.UnknownFact{{Fact: "os.name", Why: htmlHostile}}}},
		}},
		Status: &report.Status{
			State: report.Degraded, Summary: "generation 7 is in place", Generation: 7, Started: began, Finished: &ended,
			Notes:    []fault.Reason{{}},
			Degraded: []fault.Reason{{Code: "mount-missing", Summary: htmlHostile}},
			Spans: []report.Span{
				span(report.KindStage, "detect-hw.node", 0, 500*time.Millisecond),
				hardware,
				span(report.KindStage, "fetch-ca.cluster", 0, 100*time.Millisecond),
				span(report.KindStep, "verify", time.Second, time.Second),
			},
		},
		Now: began,
	}
	page := encodePage(t, func(b *bytes.Buffer) error { return BootHTML(b, v, htmlRedactor()) })
	checkPage(t, page)
	wantIn(t, page,
		`<span class="badge degraded">degraded</span></h1>`,
		"Generation 7 is in place.",
		`<li class="time chain"><span class="name">detect-hw.node</span>`,
		`<rect x="50.00%" y="0" width="50.00%"`,
		`<li class="time part"><span class="name">hardware the hardware</span>`,
		`<li class="time "><span class="name">fetch-ca.cluster</span>`,
		"a warning", "its reason", "site.hcl:3:1", "<code>mount-missing</code>", "<code>/etc/x</code>",
		`<span class="add">&#43;`,
		"<dt>os.name</dt>",
	)

	const command = "\n::stop-commands::x"
	v.Source = "/of/this/machine/n17" + command
	v.Plan.Node.Labels[0].Value = "##[error]" + command
	v.Status = nil
	v.NoTimes = "a recording has none"
	page = encodePage(t, func(b *bytes.Buffer) error { return BootHTML(b, v, htmlRedactor()) })
	wantIn(t, page, "<dd>none: a recording has none</dd>", `<title>prelet: n17\n::stop-commands::x</title>`)
	if strings.Contains(page, command) || strings.Contains(page, "##[") {
		t.Error("page: got a command of a workflow, want it escaped")
	}
}

// The page of a plan that failed before anything was known.
func TestBootHTMLOfAFailure(t *testing.T) {
	v := BootView{
		View: View{Plan: &evaluate.Plan{Diagnostics: hcl.Diagnostics{
			origin.Error(fault.NullFact, hcl.Range{}, htmlHostile, "no next step")}}},
		NoTimes: "prelet has not run",
	}
	page := encodePage(t, func(b *bytes.Buffer) error { return BootHTML(b, v, htmlRedactor()) })
	checkPage(t, page)
	wantIn(t, page, `<span class="badge failed">failed</span></h1>`, "no next step")

	// A site that fails now is before what an earlier run warned of.
	v.Status = &report.Status{
		State: report.Degraded, Summary: "generation 7 is in place",
		Degraded: []fault.Reason{{Code: "mount-missing", Summary: "an old warning"}},
	}
	page = encodePage(t, func(b *bytes.Buffer) error { return BootHTML(b, v, htmlRedactor()) })
	wantIn(t, page, "Generation 7 is in place. The site cannot be planned on this node")
	if first, second := strings.Index(page, "no next step"), strings.Index(page, "an old warning"); first > second {
		t.Errorf("page of a failure after a run: got the error at %d, the warning at %d; want the error first", first, second)
	}
}

func TestFleetHTML(t *testing.T) {
	r := fleet.NewReport("1.2.3")
	r.Against = htmlHostile
	for n := range 3 {
		e := fleet.Effect{Member: fleet.Member{Source: fmt.Sprintf("fleet/node%d.prelet", n)}}
		e.State = fleet.Changed
		e.Changes = []compare.NodeChange{
			{Kind: "label", Name: "rack", Action: "update", From: "r07", To: htmlHostile},
			{Kind: "file", Name: "/etc/x", Action: "delete", Diff: "-" + htmlHostile + "\n"},
		}
		e.Restarts = 1
		r.Add(e)
	}
	r.Add(fleet.FailedToRead("fleet/"+htmlHostile, errors.New(htmlHostile)))
	r.Finish()

	page := encodePage(t, func(b *bytes.Buffer) error { return FleetHTML(b, r, htmlRedactor()) })
	checkPage(t, page)
	wantTimes(t, page, map[string]int{
		`<article class="group"`:          2,
		`<tr data-machine=`:               4,
		`<tr data-effect=`:                2,
		`<td data-column="1" class=`:      2,
		`<td data-column="2"></td>`:       2,
		`data-kinds="label file"`:         1,
		"The kubelet is restarted on all": 1,
	})
}

// The cell of an effect has the sign of the change and its value, which sets two groups apart: the new one, or
// one that goes. A file has none, a secret has none, and a long value is cut.
func TestFleetHTMLCells(t *testing.T) {
	r := fleet.NewReport("1.2.3")
	long := strings.Repeat("ä", 2*maxCell)
	cut := strings.Repeat("ä", maxCell-1) + "…"
	cells := []struct {
		change compare.NodeChange
		want   string
	}{
		{compare.NodeChange{Kind: "label", Name: "new", Action: "create", To: "r07"}, `&#43; <span class="mono">r07</span>`},
		{compare.NodeChange{Kind: "label", Name: "other", Action: "update", From: "r07", To: "r08"}, `~ <span class="mono">r08</span>`},
		{compare.NodeChange{Kind: "label", Name: "quoted", Action: "update", From: `"r07"`, To: `"r09"`}, `~ <span class="mono">r09</span>`},
		{compare.NodeChange{Kind: "label", Name: "gone", Action: "delete", From: "r06"}, `− <span class="mono">r06</span>`},
		{compare.NodeChange{Kind: "label", Name: "long", Action: "create", To: long}, `&#43; <span class="mono">` + cut + `</span>`},
		{compare.NodeChange{Kind: "file", Name: "/etc/x", Action: "update", From: "sha256:1", To: "sha256:2"}, `~`},
		{compare.NodeChange{Kind: "flag", Name: "hidden", Action: "update", To: "r05", Hidden: "a secret"}, `~`},
	}
	changed := fleet.Effect{Member: fleet.Member{Source: "fleet/node1.prelet"}}
	changed.State = fleet.Changed
	for _, c := range cells {
		changed.Changes = append(changed.Changes, c.change)
	}
	same := fleet.Effect{Member: fleet.Member{Source: "fleet/node2.prelet"}}
	same.State = fleet.Unchanged
	r.Add(changed)
	r.Add(same)
	r.Finish()

	page := encodePage(t, func(b *bytes.Buffer) error { return FleetHTML(b, r, htmlRedactor()) })
	for _, c := range cells {
		row := pictureOf(t, page, `<span class="mono">`+c.change.Name+`</span></th>`, "</tr>")
		cell := pictureOf(t, row, `<td data-column="1"`, "</td>")
		if _, got, _ := strings.Cut(cell, `">`); got != c.want {
			t.Errorf("cell of %s %s: got %q, want %q", c.change.Kind, c.change.Name, got, c.want)
		}
	}
}

// A fleet in which each machine is a group of its own has a page that a browser can show.
func TestFleetHTMLOfManyGroups(t *testing.T) {
	r := fleet.NewReport("1.2.3")
	for n := range 1000 {
		e := fleet.Effect{Member: fleet.Member{Source: fmt.Sprintf("fleet/node%d.prelet", n)}}
		e.State = fleet.Changed
		e.Changes = []compare.NodeChange{
			{Kind: "taint", Name: "rack", Action: "create", To: fmt.Sprint("r", n)},
			{Kind: "label", Name: fmt.Sprint("of-", n), Action: "create", To: "x"},
		}
		r.Add(e)
	}
	r.Finish()

	page := encodePage(t, func(b *bytes.Buffer) error { return FleetHTML(b, r, htmlRedactor()) })
	wantTimes(t, page, map[string]int{
		`<article class="group"`:                 1000,
		`<th scope="col" data-column`:            maxColumns,
		`<tr data-effect=`:                       maxColumns + 1,
		"The first 50 of 1000 groups are shown.": 1,
		"950 more effects are in the groups":     1,
	})
}

func encodePage(t *testing.T, encode func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatalf("page: got %v, want no error", err)
	}

	return b.String()
}

// pictureOf returns the text between two texts of a page.
func pictureOf(t *testing.T, page, from, to string) string {
	t.Helper()
	_, rest, hasStart := strings.Cut(page, from)
	part, _, hasEnd := strings.Cut(rest, to)
	if !hasStart || !hasEnd {
		t.Fatalf("page: got no text between %q and %q, want one", from, to)
	}

	return part
}

// The picture of a machine: devices are in their NUMA node and behind their switch, and have the faults that the kernel,
// detectors and the site's checks report of them.
func TestMachineHTML(t *testing.T) {
	const narrow, broken, held = "0000:0c:00.0", "0000:15:00.0", "0000:1e:00.0"
	text, err := os.ReadFile("../../../testdata/hardware/facts/mi300x.json")
	must(t, err)
	var f tape.Facts
	must(t, json.Unmarshal(text, &f))
	for i, a := range f.Accelerators {
		if *a.Address == narrow {
			f.Accelerators[i].PCIe.Width = new(8)
			f.Accelerators[i].PCIe.FatalErrors = new(2)
		}
	}
	f.Kernel.MachineCheck = new(true)
	f.PCI = append(f.PCI, tape.PCIDevice{Address: "0000:ff:00.0", Parent: new("0000:ff:00.0")})
	f.NICs = append(f.NICs, tape.NIC{Address: new("0000:ff:00.0"), Interface: new(htmlHostile)})

	answers := tape.NewTape(tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		return tape.Answer{Value: json.RawMessage(q.Args)}
	}))
	for _, answer := range []string{
		`{"devices":[{"address":"` + broken + `","attributes":{"xgmi_hive":"1","uncorrected_errors":"3","bad_pages":"7"}},` +
			`{"address":"` + narrow + `","attributes":{"xgmi_hive":"1","uncorrected_errors":"0"}}]}`,
		`{"devices":[{"address":"` + held + `","attributes":{"fabric_state":"completed","fabric_clique":"4"}},` +
			`{"address":"0000:9f:00.0","attributes":{"fabric_state":"completed","bad_pages":"0"}},` +
			`{"address":"0000:df:00.0","attributes":{"answers":"false"}},` +
			`{"address":"0000:bf:00.0","attributes":{"mig":"disabled","mig_after_reset":"enabled"}}],` +
			`"facts":{"gpus_missing":["0000:af:00.0"]}}`,
	} {
		answers.Ask(t.Context(), tape.Question{Kind: tape.KindDetector, Args: answer})
	}
	v := BootView{View: View{Plan: &evaluate.Plan{
		Trace: evaluate.Trace{
			Facts: &f,
			Tape:  answers,
		},
		Diagnostics: hcl.Diagnostics{
			origin.Warning(fault.KubeletHeld, hcl.Range{}, `Hold "gpu" is true`, "GPU "+held+" needs a reset"),
			origin.Warning(fault.NullFact, hcl.Range{}, "Not a check", "of "+held),
		},
	}}}
	page := encodePage(t, func(b *bytes.Buffer) error { return BootHTML(b, v, htmlRedactor()) })
	wantTimes(t, page, map[string]int{"<script": 1, "style=": 0, "canary": 0, "\u202e": 0})

	board := pictureOf(t, page, `<section id="machine">`, `<section id="facts">`)
	wantTimes(t, board, map[string]int{
		`<section class="numa">`:  3, // and one for the card without a node
		"PCI switch":              8,
		`<li class="device`:       len(f.Accelerators) + len(f.NICs),
		`<li class="device error`: 4,
		`<p class="check`:         2,
		"Not a check":             0,
	})
	wantIn(t, board, `<p class="check warning">Hold &#34;gpu&#34; is true</p>`, "A processor has reported")
	for _, d := range table.YAML[[]struct{ Address, State, Want string }](t, `
- {address: 0000:0c:00.0, state: warning, want: '8 of 16 lanes, 2 fatal and ? other errors of its link'}
- {address: 0000:0c:00.0, state: warning, want: XGMI hive 1}
- {address: 0000:0c:00.0, state: warning, want: PCIe 32 GT/s ×8 of ×16}
- {address: 0000:15:00.0, state: error, want: uncorrected_errors 3}
- {address: 0000:1e:00.0, state: error, want: Hold &#34;gpu&#34; is true}
- {address: 0000:1e:00.0, state: error, want: NVLink 4}
- {address: 0000:15:00.0, state: error, want: bad_pages 7}
- {address: 0000:9f:00.0, want: '>NVLink<'}
- {address: 0000:bf:00.0, state: error, want: mig_after_reset enabled}
- {address: 0000:af:00.0, state: error, want: attached false}
- {address: 0000:df:00.0, state: warning, want: does not answer}
- {address: 0000:07:00.0, state: up 400G, want: PCIe 32 GT/s ×16}
- {address: 0000:69:00.0, state: unheard, want: PCIe 32 GT/s ×16}
- {address: 0000:69:00.0, state: unheard, want: 'health: no detector reports it'}
`) {
		for item := range strings.SplitSeq(board, `<li class="device `) {
			if !strings.Contains(item, d.Address) || strings.Contains(item, "PCI switch</p>") {
				continue
			}
			if !strings.HasPrefix(item, d.State+`"`) || !strings.Contains(item, d.Want) {
				t.Errorf("device %s: got %s, want %q with %q", d.Address, item, d.State, d.Want)
			}
		}
	}
	first := pictureOf(t, board, "PCI switch", "PCI switch")
	wantIn(t, first, "0000:05:00.0", "0000:07:00.0", narrow)
}
