package evaluate

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/plugins/contract"
)

//go:embed testdata/detectors.yaml
var detectorText []byte

// detectorCases is testdata/detectors.yaml.
type detectorCases struct {
	Description contract.Description
	Configs     []struct{ Name, Config, Want string }
	Facts       map[string]string
	Locks       []struct {
		Body, Want string
		Fail       fault.Code
	}
}

func readDetectorCases() (out detectorCases) {
	if err := yaml.UnmarshalStrict(detectorText, &out); err != nil {
		panic(err)
	}
	return out
}

// describeGaudi returns a detector with a configuration, facts and needs.
func describeGaudi() contract.Description { return readDetectorCases().Description }

// detectorWorld is a bare machine with cards, and detectors that are locked and answer.
func detectorWorld(t testing.TB, facts *tape.Facts, answers map[string]tape.Answer,
	locks ...contract.Description) tape.Source {
	t.Helper()
	return tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		switch q.Kind {
		case tape.KindLock:
			r, _ := tape.Lock.Request(q)
			for _, d := range locks {
				if d.Name == r.Name {
					text, _ := json.Marshal(d)
					return tape.Lock.Answer(
						tape.LockAns{LockEntry: tape.LockEntry{Name: d.Name, SHA256: strings.Repeat("0", 64),
							Describe: text}, File: "/usr/lib/prelet/detectors.lock.d/" + d.Name + ".json"},
					)
				}
			}
			return tape.Failure(fault.Absent, "There is no program, and no lock", "")
		case tape.KindDetector:
			r, err := tape.Detector.Request(q)
			if a, ok := answers[r.Name]; ok && err == nil {
				return a
			}
			t.Errorf("got the question %s, want none to an unknown detector", q)
			return tape.Failure(fault.FileUnusable, "must not be asked", "")
		}
		return answerAsUsual(q, facts)
	})
}

const afterDetectors = "\nstage \"detect-hw\" \"node\" {}\n" + writeNothing

const grants = `
  allow {
    devices = ["/dev/accel/accel*", "/dev/accel/accel_controlD*"]
    execute = ["/usr/bin/hl-smi"]
  }
`

// A site's configuration of a detector is checked where no machine is: along the lock, at the site's line, with no
// process.
func TestDetectorConfigIsChecked(t *testing.T) {
	locks := detectorWorld(t, makeBareVM(), nil, describeGaudi())
	for _, test := range readDetectorCases().Configs {
		t.Run(test.Name, func(t *testing.T) {
			s := mustParse(t, "variable \"cards\" {\n  type = number\n}\ndetector \"gaudi\" {\n"+
				"  allow { devices = [\"/dev/accel/accel*\"] }\n  required = false\n  config {\n    "+
				test.Config+"\n  }\n}\n"+afterDetectors)
			var got []string
			for _, d := range Check(s, SampleMachines(), CheckOptions{Locks: locks}) {
				if strings.HasPrefix(d.Summary, `Detector "gaudi": `) {
					got = append(
						got,
						fmt.Sprintf("%s %d:%d %s", origin.CodeOf(d), d.Subject.Start.Line, d.Subject.Start.Column,
							d.Summary),
					)
				}
			}
			if strings.Join(got, "\n") != test.Want {
				t.Errorf("got %q, want %q", got, test.Want)
			}
		})
	}
}

// A detector has the time that the site gives, else what it says that it needs, if that is more than the default.
func TestDetectorTimeout(t *testing.T) {
	for _, test := range table.YAML[[]struct {
		Site string
		Says int
		Want table.Duration
	}](t, `
- {says: 0, want: 10s}
- {says: 5, want: 10s}
- {says: 45, want: 45s}
- {site: timeout = "10s", says: 45, want: 10s}
- {site: timeout = "90s", says: 45, want: 90s}
`) {
		d := describeGaudi()
		d.TimeoutSeconds = test.Says
		s := mustParse(t, "detector \"gaudi\" {\n"+test.Site+"\n}\n"+afterDetectors)
		all, diags := Detectors(t.Context(), s, detectorWorld(t, makeBareVM(), nil, d))
		if len(all) != 1 || all[0].Timeout != test.Want.Duration {
			t.Errorf("%q, and the detector says %d: got %+v, %v; want a timeout of %s", test.Site, test.Says, all, diags,
				test.Want)
		}
	}
}

// A lock that cannot be used would leave a wrong configuration unseen: a warning. One that is not there is on the
// node: a note, with what to do, and only where there is a configuration.
func TestDetectorLockThatCannotBeUsed(t *testing.T) {
	for _, tt := range readDetectorCases().Locks {
		locks := tape.SourceFunc(func(context.Context, tape.Question) tape.Answer {
			return tape.Failure(tt.Fail, "There is no lock of it that can be used", "")
		})
		said := ""
		for _, d := range Check(mustParse(t, "detector \"gaudi\" {\n  "+tt.Body+"\n}\n"+afterDetectors), SampleMachines(), CheckOptions{Locks: locks}) {
			if !strings.Contains(d.Summary, `The configuration of detector "gaudi" is not checked`) {
				continue
			}
			if said = "warning"; origin.IsNote(d) {
				said = "note"
			}
			if d.Severity != hcl.DiagWarning ||
				!strings.Contains(d.Detail, "There is no lock of it that can be used.") ||
				said == "note" && !strings.Contains(d.Detail, "prelet detectors lock --site --config DIR PROGRAM") {
				t.Errorf("%q, %s: got %s\nwant a warning with the reason and the next step", tt.Body, tt.Fail, d.Detail)
			}
		}
		if said != tt.Want {
			t.Errorf("%q, %s: a %q, want %q", tt.Body, tt.Fail, said, tt.Want)
		}
	}
	if text := showDiagnostics(Check(mustParse(t, "detector \"gaudi\" {\n  config { cards = 1 }\n}\n"+afterDetectors),
		SampleMachines(), CheckOptions{})); strings.Contains(text, "not checked") {
		t.Errorf("without a source of locks: got %s\nwant nothing about the check", text)
	}
}

// The facts of a detector have their type from its lock: what it does not describe is refused on a laptop.
func TestDetectorFactsAreTyped(t *testing.T) {
	locks := detectorWorld(t, makeBareVM(), nil, describeGaudi())
	head := "detector \"gaudi\" {" + grants + "}\n" + afterDetectors +
		"stage \"label\" \"x\" {\n  labels = { \"example.com/x\" = "
	for expression, want := range readDetectorCases().Facts {
		expression = strings.ReplaceAll(expression, "facts.", "stage.detect-hw.node.detectors.gaudi.facts.")
		diags := Check(mustParse(t, head+expression+" }\n}\n"), SampleMachines(), CheckOptions{Locks: locks})
		if want == "" && diags.HasErrors() || want != "" && !strings.Contains(showDiagnostics(diags), want) {
			t.Errorf("%s: want %q, got %s", expression, want, showDiagnostics(diags))
		}
		if d := Check(mustParse(t, head+expression+" }\n}\n"), SampleMachines(), CheckOptions{}); d.HasErrors() {
			t.Errorf("%s, without a lock: got %s\nwant no error", expression, showDiagnostics(d))
		}
	}
}

// cards is a machine with two accelerators and a card of the network.
func makeCards() *tape.Facts {
	f := makeBareVM()
	name, driver, kind := "Gaudi?", "habanalabs", "npu"
	for _, a := range []string{"0000:10:00.0", "0000:20:00.0"} {
		f.PCI = append(f.PCI, tape.PCIDevice{Address: a, Device: "1da3:1020", Class: "120000", Driver: &driver})
		f.Accelerators = append(f.Accelerators, tape.Accelerator{Kind: kind, Name: &name, Address: &a})
		f.Unknown = append(f.Unknown, tape.UnknownFact{Fact: "accelerators[" + a + "].memory_gib",
			Why: "a detector asks that"})
	}
	f.PCI = append(f.PCI, tape.PCIDevice{Address: "0000:30:00.0", Device: "1da3:2000", Class: "120000"})
	return f
}

func answerDetector(t testing.TB, devices ...contract.Device) tape.Answer {
	t.Helper()
	return tape.Detector.Answer(tape.DetectorAns{Version: "1", Devices: devices})
}

// What a recording that is passed on left out of a detector's answer is not null: the plan fails where it is needed.
func TestDetectorIdentityIsWithheld(t *testing.T) {
	said := tape.Detector.Answer(tape.DetectorAns{Version: "1",
		Attributes: map[string]string{"serial_number": "canary", "firmware": "1.20"}})
	w := detectorWorld(t, makeCards(), map[string]tape.Answer{"gaudi": said}, describeGaudi())
	for attribute, complete := range map[string]bool{"serial_number": false, "firmware": true} {
		s := mustParse(t, "detector \"gaudi\" {"+grants+"}\n"+afterDetectors+"stage \"label\" \"x\" {\n"+
			"  labels = { \"example.com/x\" = stage.detect-hw.node.detectors.gaudi.attributes."+attribute+" }\n}\n")
		p := Run(context.Background(), s, RunInput{Source: w})
		rec := tape.Recording{Entries: p.Tape.Entries()}
		must(t, rec.Withhold())
		q := Run(context.Background(), p.Site, RunInput{Source: rec.Source()})
		if !p.Complete || q.Complete != complete || strings.Contains(showPlan(q), "canary") {
			t.Errorf("%s: got complete %t, and of the recording %t: %s\nwant true and %t",
				attribute, p.Complete, q.Complete, showPlan(q), complete)
		}
		if text := showDiagnostics(q.Diagnostics); !complete && !strings.Contains(text, "error unread") {
			t.Errorf("got %s\nwant that the recording lacks it", text)
		}
	}
}

// A recording of a newer prelet may have facts that this one does not know. They are left out; one that the recording
// withholds, which the plan could not name, is an error that says so.
func TestNewerRecordingIsNamed(t *testing.T) {
	s := mustParse(t, "detector \"gaudi\" {"+grants+"}\n"+afterDetectors)
	p := Run(context.Background(), s, RunInput{Source: detectorWorld(t, makeCards(),
		map[string]tape.Answer{"gaudi": answerDetector(t)}, describeGaudi())})
	rec := tape.Recording{Entries: p.Tape.Entries()}
	i := slices.IndexFunc(rec.Entries, func(e tape.Entry) bool { return e.Kind == tape.KindHardware })
	answer := &rec.Entries[i].Answer
	answer.Value = append([]byte(`{"fans":[{"serial":null}],`), answer.Value[1:]...)

	if q := Run(context.Background(), s, RunInput{Source: rec.Source()}); !q.Complete || q.Diagnostics.HasErrors() {
		t.Errorf("an unknown fact: got complete %t and %s, want it left out",
			q.Complete, showDiagnostics(q.Diagnostics))
	}

	answer.Withheld = []string{"/fans/0/serial"}
	q := Run(context.Background(), s, RunInput{Source: rec.Source()})
	const want = "it withholds facts /fans/0/serial, which this prelet does not know: a newer prelet made the recording"
	if text := showDiagnostics(q.Diagnostics); !q.Diagnostics.HasErrors() || !strings.Contains(text, want) {
		t.Errorf("an unknown fact that is withheld: got %s, want %q", text, want)
	}
}

// TestDetectorMerge: detector over driver over table, by PCI address, field by field; and where two differ, neither.
func TestDetectorMerge(t *testing.T) {
	name, other, kind, nic := "HL-225", "HL-325", "npu", "nic"
	bytes, gib96 := uint64(103079215104), 96.0
	one := contract.Device{Address: "0000:10:00.0", Name: &name, MemoryBytes: &bytes,
		Evidence: map[string]string{"name": "hl-smi"}}
	second := describeGaudi()
	second.Name = "second"
	site := func(required bool) string {
		return fmt.Sprintf(
			"detector \"gaudi\" {\n  required = %t%s}\ndetector \"second\" {%s}\n%s",
			required,
			grants,
			grants,
			afterDetectors,
		)
	}
	t.Run("adds", func(t *testing.T) {
		w := detectorWorld(t, makeCards(), map[string]tape.Answer{
			"gaudi": answerDetector(t, one, contract.Device{Address: "0000:30:00.0", Kind: &nic}),
			"second": answerDetector(t, contract.Device{Address: "0000:10:00.0", Kind: &kind, MemoryBytes: &bytes},
				contract.Device{Address: "0000:99:00.0", Name: &other})}, describeGaudi(), second)
		p := Run(context.Background(), mustParse(t, site(true)), RunInput{Source: w})
		a, b := p.Facts.Accelerators[0], p.Facts.Accelerators[1]
		if *a.Name != name || a.MemoryGiB == nil || *a.MemoryGiB != gib96 || *b.Name != "Gaudi?" ||
			b.MemoryGiB != nil ||
			len(p.Degraded) > 0 {
			t.Errorf("got %+v, %+v and %v; want %s with %v GiB, Gaudi? without, and no degraded boot",
				a, b, p.Degraded, name, gib96)
		}
		if e := p.Facts.Evidence["accelerators[0000:10:00.0].name"]; e != "detector gaudi: hl-smi" {
			t.Errorf("evidence: got %q, want that of detector gaudi", e)
		}
		if slices.ContainsFunc(p.Facts.Unknown,
			func(u tape.UnknownFact) bool { return u.Fact == "accelerators[0000:10:00.0].memory_gib" }) {
			t.Error("memory: got a reason for being unknown, want none: it is known")
		}
		if i := slices.IndexFunc(p.Facts.NICs, func(n tape.NIC) bool {
			return n.Address != nil &&
				*n.Address == "0000:30:00.0"
		}); i < 0 {
			t.Error("network cards: got none, want the device that a detector calls one")
		}
		rec := tape.Recording{Entries: p.Tape.Entries()}
		if q := Run(context.Background(), p.Site, RunInput{Source: rec.Source()}); q.Hash == "" || q.Hash != p.Hash ||
			showPlan(q) != showPlan(p) {
			t.Errorf("plan of the recording: got %s\nwant %s", showPlan(q), showPlan(p))
		}
	})
	for required, exit := range map[bool]int{false: 0, true: 31} {
		t.Run(fmt.Sprintf("disagree, required %t", required), func(t *testing.T) {
			w := detectorWorld(t, makeCards(), map[string]tape.Answer{
				"gaudi": answerDetector(t, one), "second": answerDetector(t,
					contract.Device{Address: "0000:10:00.0", Name: &other})}, describeGaudi(), second)
			p := Run(context.Background(), mustParse(t, site(required)), RunInput{Source: w})
			text := showDiagnostics(p.Diagnostics)
			want := `Detectors "gaudi" and "second" disagree: For name of the device 0000:10:00.0 ` +
				`"gaudi" reports HL-225, and "second" reports HL-325.`
			if got := origin.Code(p.Diagnostics).Exit(); got != exit || !strings.Contains(text, want) {
				t.Errorf("got exit %d: %s\nwant exit %d: %s", got, text, exit, want)
			}
			if p.Facts != nil && *p.Facts.Accelerators[0].Name != "Gaudi?" {
				t.Errorf("name: got %s, want none where detectors disagree", *p.Facts.Accelerators[0].Name)
			}
		})
	}
}

// namedLocks is a source of locks that knows their names.
type namedLocks struct {
	tape.Source
	names []string
}

func (l namedLocks) Installed() []string { return l.names }

// TestUnknownDetectors: what a site names and nothing describes is a warning where no machine is, and what may be
// described is not.
func TestUnknownDetectors(t *testing.T) {
	from := namedLocks{detectorWorld(t, makeBareVM(), nil, describeGaudi()), []string{"gaudi"}}
	const declared = "detector \"gaudi\" {" + grants + "}\n"
	label := func(pattern string) string {
		return "stage \"label\" \"node\" { from_detectors = [" + pattern + "] }\n"
	}
	for _, c := range []struct{ name, site, want string }{
		{"described", declared + label(`"habana.example/*"`), ""},
		{"below it", declared + label(`"x.habana.example/y"`), ""},
		{"a wide pattern", declared + label(`"*/*"`), ""},
		{"no name", declared + label(`"habana.example"`), "7:42 from_detectors: \"habana.example\" matches no label"},
		{"no slash", declared + label(`"*"`), "7:42 from_detectors: \"*\" matches no label"},
		{
			"no slash, and one that is not known", declared + "detector \"else\" {}\n" + label(`"acme.example"`),
			"8:42 from_detectors: \"acme.example\" matches no label",
		},
		{"another domain", declared + label(`"habana.example/*", "npu.other.example/*"`), "7:62 from_detectors: \"npu.other.example/*\" matches no label"},
		{"ends alike", declared + label(`"nothabana.example/*"`), "7:42 from_detectors: " +
			"\"nothabana.example/*\" matches no label"},
		{"no detector", label(`"habana.example/*"`), "1:42 from_detectors: \"habana.example/*\" matches no label"},
		{"one that is not known", declared + "detector \"else\" {}\n" + label(`"npu.other.example/*"`), ""},
		{"misspelt", "detector \"gaudii\" {}\n" + label(`"npu.other.example/*"`), "1:1 Detector \"gaudii\" is " +
			"not installed, but \"gaudi\" is"},
		{"both", declared + "detector \"gaudii\" {}\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, d := range Check(mustParse(t, c.site+afterDetectors), SampleMachines(), CheckOptions{Locks: from}) {
				if origin.CodeOf(d) == fault.DetectorUnknown {
					got = append(got, fmt.Sprintf("%d:%d %s", d.Subject.Start.Line, d.Subject.Start.Column, d.Summary))
				}
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got %q; want %q", got, c.want)
			}
		})
	}
}

// TestWarningsAreBounded: as many and as long warnings as a detector may have are a page, and not a journal.
func TestWarningsAreBounded(t *testing.T) {
	d := contract.Description{Name: "chatty", Version: "1.0.0", Match: contract.Match{Always: true}}
	long := tape.DetectorAns{Version: "1.0.0"}
	wrong := long
	for i := range contract.MaxNotes {
		long.Warnings = append(long.Warnings, fmt.Sprint(i)+strings.Repeat(" Error: nothing works", 200))
		wrong.Problems = append(
			wrong.Problems,
			contract.Problem{Path: "x", Summary: strings.Repeat("no ", 1000), Detail: strings.Repeat("yes ", 1000)},
		)
	}
	for name, ans := range map[string]tape.DetectorAns{"warnings": long, "problems": wrong} {
		from := detectorWorld(t, makeBareVM(), map[string]tape.Answer{"chatty": tape.Detector.Answer(ans)}, d)
		_, diags := Detect(t.Context(), mustParse(t, "detector \"chatty\" {}\n"+afterDetectors), from)
		text := showDiagnostics(diags)
		if len(text) > 12000 || len(diags) == 0 {
			t.Errorf("%s: got %d messages of %d bytes; want some, of at most 12000", name, len(diags), len(text))
		}
		if name == "warnings" &&
			(!strings.Contains(text, "It has 56 more") || !strings.Contains(text, string(fault.DetectorWarning))) {
			t.Errorf("got %.600q; want the code %s, and how many more there are", text, fault.DetectorWarning)
		}
	}
}

// fabricSite waits for the fabric with the arguments of detect-hw's block wait.
const fabricSite = `detector "nvidia" {}
stage "detect-hw" "node" {
  wait {
    fabric  = "completed"
    timeout = "5s"
  }
}
stage "label" "clique" {
  labels = { "example.com/state" = stage.detect-hw.node.detectors.nvidia.facts.fabric_state }
}
` + writeNothing

// TestFabricWait: a fabric that is not complete degrades the boot, at the site's line, and the plan goes on. A machine
// without a fabric is not degraded.
func TestFabricWait(t *testing.T) {
	text := contract.Type{Kind: contract.String}
	describe := contract.Description{Name: "nvidia", Version: "1", Match: contract.Match{Always: true},
		Facts: []contract.Attribute{{Name: "fabric_state", Type: text}}}
	other := describe
	other.Facts = nil

	for name, tt := range map[string]struct {
		describe contract.Description
		facts    map[string]any
		unknown  string
		want     string // of the diagnostics
	}{
		"completed":   {describe, map[string]any{"fabric_state": "completed"}, "", ""},
		"no fabric":   {describe, map[string]any{"fabric_state": "not-supported"}, "", ""},
		"never ready": {describe, map[string]any{"fabric_state": "in-progress"}, "", `hardware-degraded 4:15 Timed out waiting for the NVLink fabric: Detector "nvidia" reports fabric_state = "in-progress".`},
		"failed":      {describe, map[string]any{"fabric_state": "failed"}, "", `hardware-degraded 4:15 The NVLink fabric has failed: Detector "nvidia" reports fabric_state = "failed".`},
		"no NVML": {describe, map[string]any{"fabric_state": nil}, "libnvidia-ml.so.1 does not exist",
			`hardware-degraded 4:15 Timed out waiting for the NVLink fabric: Detector "nvidia" cannot report it: libnvidia-ml.so.1 does not exist.`},
		"no such fact": {other, nil, "", `hardware-degraded 4:15 Nothing reports the fabric: No detector of this stage has the fact fabric_state`},
	} {
		ans := tape.Detector.Answer(tape.DetectorAns{Version: "1", Facts: tt.facts, Unknown: map[string]string{"facts.fabric_state": tt.unknown}})
		site := fabricSite
		if tt.facts == nil {
			site = strings.Replace(site, "detectors.nvidia.facts.fabric_state", "detectors.nvidia.version", 1)
		}
		from := detectorWorld(t, makeBareVM(), map[string]tape.Answer{"nvidia": ans}, tt.describe)
		found, diags := Detect(t.Context(), mustParse(t, site), from)
		unknown := tape.UnknownFact{Fact: "detectors.nvidia.facts.fabric_state", Why: tt.unknown}
		if !slices.Contains(found.Facts.Unknown, unknown) {
			t.Errorf("%s: got unknown facts %v, want %v among them", name, found.Facts.Unknown, unknown)
		}
		var got []string
		for _, d := range diags {
			if d.Severity == hcl.DiagWarning && !origin.IsNote(d) {
				at := d.Subject.Start
				got = append(got, fmt.Sprintf("%s %d:%d %s: %s", origin.CodeOf(d), at.Line, at.Column, d.Summary, d.Detail))
			}
		}
		if all := strings.Join(got, "\n"); !strings.HasPrefix(all, tt.want) || (all == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", name, all, tt.want)
		}
	}
}
