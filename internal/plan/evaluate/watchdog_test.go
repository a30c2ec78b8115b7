package evaluate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
)

// rulesSite is a site of one write stage, with a patch of the kubelet's configuration and other blocks.
func rulesSite(patch, blocks string) string {
	return `stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    patch = ` + patch + `
  }
  kubelet_flags { base = "" }
` + blocks + `}
`
}

// fileBlock returns a block of the write stage that writes a text, in which HCL's escapes are used.
func fileBlock(path, text string) string {
	return "  file \"x\" {\n    path = \"" + path + "\"\n    content = \"" + text + "\"\n  }\n"
}

// ofMachine returns the messages of a plan about the machine.
func ofMachine(p *Plan) (out hcl.Diagnostics) {
	for _, d := range p.Diagnostics {
		if origin.CodeOf(d) == fault.KubeletMachine {
			out = append(out, d)
		}
	}

	return out
}

// checkOne checks that there is one message with a text, at a line; or none for an empty text.
func checkOne(t *testing.T, name string, got hcl.Diagnostics, severity hcl.DiagnosticSeverity, line int, says string) {
	t.Helper()
	switch {
	case says == "" && len(got) > 0:
		t.Errorf("%s: got %s\nwant nothing", name, showDiagnostics(got))
	case says != "" && (len(got) != 1 || got[0].Severity != severity || got[0].Subject.Start.Line != line ||
		!strings.Contains(got[0].Detail, says)):
		t.Errorf("%s: got %s\nwant one of severity %d at line %d with %q", name, showDiagnostics(got), severity, line, says)
	}
}

// TestKubeletWatchdog checks a WatchdogSec= of the kubelet's unit, as systemd has loaded it and as the site writes it, against
// the installed kubelet.
func TestKubeletWatchdog(t *testing.T) {
	dropIn := func(text string) string {
		return fileBlock("/etc/systemd/system/kubelet.service.d/50-x.conf", text)
	}
	for _, c := range []struct {
		name, version string
		loaded        time.Duration
		patch, blocks string
		severity      hcl.DiagnosticSeverity
		line          int
		says          string
	}{
		{name: "none", version: "v1.31.2"},
		{name: "a kubelet that reports", version: "v1.32.0", loaded: 30 * time.Second},
		{name: "an old kubelet", version: "v1.31.2", loaded: 30 * time.Second, severity: hcl.DiagWarning, line: 1,
			says: "kubelet.service has WatchdogSec=30s, and v1.31.2 does not report"},
		{name: "a gate that is off", version: "v1.33.0", loaded: 30 * time.Second, severity: hcl.DiagWarning, line: 1,
			patch: `{ featureGates = { SystemdWatchdog = false } }`, says: "the feature gate SystemdWatchdog is off"},
		{name: "all beta gates off", version: "v1.33.0", loaded: 30 * time.Second, severity: hcl.DiagWarning, line: 1,
			patch: `{ featureGates = { AllBeta = false } }`, says: "the feature gate SystemdWatchdog is off"},
		{name: "too short", version: "v1.37.1", loaded: time.Second, severity: hcl.DiagError, line: 1,
			says: "configure watchdog timeout too small"},
		{name: "the site writes one", version: "v1.31.2", blocks: dropIn(`[Service]\nWatchdogSec=1min 30s\n`),
			severity: hcl.DiagWarning, line: 11, says: "WatchdogSec=1m30s, and v1.31.2 does not report"},
		{name: "the site turns it off", version: "v1.31.2", loaded: 30 * time.Second,
			blocks: dropIn(`[Service]\nWatchdogSec=0\n`)},
		{name: "the site writes something else", version: "v1.31.2", loaded: 30 * time.Second,
			blocks: dropIn(`[Service]\n#WatchdogSec=0\nNice=1\n`), severity: hcl.DiagWarning, line: 1, says: "WatchdogSec=30s"},
		{name: "an invalid value, which systemd ignores", version: "v1.31.2", blocks: dropIn(`[Service]\nWatchdogSec=soon\n`)},
		{name: "in a section where systemd ignores it", version: "v1.37.1", blocks: dropIn(`[Unit]\nWatchdogSec=1\n`)},
		{name: "the site writes the unit", version: "v1.37.1", loaded: 30 * time.Second, severity: hcl.DiagError, line: 11,
			blocks: fileBlock("/etc/systemd/system/kubelet.service", `[Service]\nExecStart=/usr/bin/kubelet\nWatchdogSec=1\n`),
			says:   "configure watchdog timeout too small"},
		{name: "the site writes a unit without one", version: "v1.31.2", loaded: 30 * time.Second,
			blocks: fileBlock("/etc/systemd/system/kubelet.service", `[Service]\nExecStart=/usr/bin/kubelet\n`)},
		{name: "for ever", version: "v1.31.2", blocks: dropIn(`[Service]\nWatchdogSec=infinity\n`)},
	} {
		patch := c.patch
		if patch == "" {
			patch = "{ maxPods = 20 }"
		}
		source := usualWith(map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &c.version}),
			tape.KindUnit: tape.Unit.Answer(tape.UnitAns{Load: "loaded", Start: &tape.StartAns{
				Words:          []string{"/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml"},
				WatchdogMicros: c.loaded.Microseconds(),
			}}),
		})
		p := Run(t.Context(), mustParse(t, rulesSite(patch, c.blocks)), RunInput{Source: source})
		checkOne(t, c.name, ofMachine(p), c.severity, c.line, c.says)
	}
}

// TestLogind checks a shutdownGracePeriod against logind and its drop-ins, those that the site writes included. A
// recording without the answer has no message, and a site without a period asks nothing.
func TestLogind(t *testing.T) {
	const (
		patch = `{ shutdownGracePeriod = "60s" }`
		late  = "/usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf"
	)
	five := (5 * time.Second).Microseconds()
	for _, c := range []struct {
		name, patch string
		answer      *tape.LogindAns // nil: a recording without it
		blocks      string
		says        string
		notAsked    bool
	}{
		{name: "no period", patch: "{ maxPods = 20 }", notAsked: true},
		{name: "a period of zero", patch: `{ shutdownGracePeriod = "0s" }`, notAsked: true},
		{name: "a recording that is older", patch: patch},
		{name: "the kubelet raises it", patch: patch, answer: &tape.LogindAns{DelayMicros: five}},
		{name: "an earlier drop-in", patch: patch, answer: &tape.LogindAns{DelayMicros: five,
			DropIns: []tape.LogindDropIn{{Path: "/etc/systemd/logind.conf.d/10-x.conf", Value: "5"}}}},
		{name: "a late drop-in", patch: patch, answer: &tape.LogindAns{DelayMicros: 30_000_000,
			DropIns: []tape.LogindDropIn{{Path: late, Value: "30"}}}, says: "30s at most"},
		{name: "a late drop-in, before logind runs", patch: patch, answer: &tape.LogindAns{
			DropIns: []tape.LogindDropIn{{Path: late, Value: "30"}}}, says: "30s at most"},
		{name: "a later one is longer", patch: patch, answer: &tape.LogindAns{
			DropIns: []tape.LogindDropIn{{Path: late, Value: "30"}, {Path: "/etc/systemd/logind.conf.d/zz.conf", Value: "2min"}}}},
		{name: "an invalid one", patch: patch, answer: &tape.LogindAns{
			DropIns: []tape.LogindDropIn{{Path: late, Value: "half a minute"}}}},
		{name: "the site writes a longer one", patch: patch, answer: &tape.LogindAns{DelayMicros: 30_000_000,
			DropIns: []tape.LogindDropIn{{Path: late, Value: "30"}}},
			blocks: fileBlock("/etc/systemd/logind.conf.d/zz.conf", `[Login]\nInhibitDelayMaxSec=60\n`)},
		{name: "the site replaces it", patch: patch, answer: &tape.LogindAns{DelayMicros: 30_000_000,
			DropIns: []tape.LogindDropIn{{Path: late, Value: "30"}}},
			blocks: fileBlock("/etc/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf", `# nothing\n`)},
		{name: "the site writes a shorter one", patch: patch, answer: &tape.LogindAns{DelayMicros: five},
			blocks: fileBlock("/etc/systemd/logind.conf.d/zz.conf", `[Login]\nInhibitDelayMaxSec=10s\n`), says: "10s at most"},
		{name: "a read-only /etc", patch: patch, answer: &tape.LogindAns{DelayMicros: five, ReadOnly: true},
			says: "read-only file system"},
		{name: "a read-only /etc of a logind that is right", patch: patch,
			answer: &tape.LogindAns{DelayMicros: 60_000_000, ReadOnly: true}},
		{name: "no logind", patch: patch, answer: &tape.LogindAns{Missing: true}, says: "not installed or masked"},
	} {
		version := "v1.37.1"
		answers := map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &version}),
			tape.KindLogind:  tape.Failure(fault.Unread, "", ""),
		}
		if c.answer != nil {
			answers[tape.KindLogind] = tape.Logind.Answer(*c.answer)
		}
		p := Run(t.Context(), mustParse(t, rulesSite(c.patch, c.blocks)), RunInput{Source: usualWith(answers)})
		checkOne(t, c.name, ofMachine(p), hcl.DiagWarning, 6, c.says)
		isAsked := slices.ContainsFunc(p.Tape.Entries(), func(e tape.Entry) bool { return e.Kind == tape.KindLogind })
		if isAsked == c.notAsked {
			t.Errorf("%s: got asked: %t, want %t", c.name, isAsked, !c.notAsked)
		}
	}
}
