package evaluate

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
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

// siteFile returns the block of a file that the site writes, if any.
func siteFile(path, text string) string {
	if path == "" {
		return ""
	}

	return fileBlock(path, text)
}

// severityOf returns "error", "warning" or "note".
func severityOf(d *hcl.Diagnostic) string {
	switch {
	case origin.IsNote(d):
		return "note"
	case d.Severity == hcl.DiagError:
		return "error"
	}

	return "warning"
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
func checkOne(t *testing.T, name string, got hcl.Diagnostics, severity string, line int, says string) {
	t.Helper()
	switch {
	case says == "" && len(got) > 0:
		t.Errorf("%s: got %s\nwant nothing", name, showDiagnostics(got))
	case says != "" && (len(got) != 1 || severityOf(got[0]) != severity || got[0].Subject.Start.Line != line ||
		!strings.Contains(got[0].Detail, says)):
		t.Errorf("%s: got %s\nwant one of severity %s at line %d with %q", name, showDiagnostics(got), severity, line, says)
	}
}

// TestKubeletWatchdog checks a WatchdogSec= of the kubelet's unit, as systemd has loaded it and as the site writes it, against
// the installed kubelet.
func TestKubeletWatchdog(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name, Version string
		Loaded        int    // seconds, of the unit
		Patch         string // of maxPods, if empty
		File, Text    string // what the site writes
		Severity      string
		Line          int
		Says          string
	}](t, `
- {name: none, version: v1.31.2}
- {name: a kubelet that reports, version: v1.32.0, loaded: 30}
- name: an old kubelet
  version: v1.31.2
  loaded: 30
  severity: warning
  line: 1
  says: kubelet.service has WatchdogSec=30s, and v1.31.2 does not report
- name: a gate that is off
  version: v1.33.0
  loaded: 30
  patch: '{ featureGates = { SystemdWatchdog = false } }'
  severity: warning
  line: 1
  says: the feature gate SystemdWatchdog is off
- name: all beta gates off
  version: v1.33.0
  loaded: 30
  patch: '{ featureGates = { AllBeta = false } }'
  severity: warning
  line: 1
  says: the feature gate SystemdWatchdog is off
- {name: too short, version: v1.37.1, loaded: 1, severity: error, line: 1, says: configure watchdog timeout too small}
- name: the site writes one
  version: v1.31.2
  file: /etc/systemd/system/kubelet.service.d/50-x.conf
  text: '[Service]\nWatchdogSec=1min 30s\n'
  severity: warning
  line: 11
  says: WatchdogSec=1m30s, and v1.31.2 does not report
- name: the site turns it off
  version: v1.31.2
  loaded: 30
  file: /etc/systemd/system/kubelet.service.d/50-x.conf
  text: '[Service]\nWatchdogSec=0\n'
- name: the site writes something else
  version: v1.31.2
  loaded: 30
  file: /etc/systemd/system/kubelet.service.d/50-x.conf
  text: '[Service]\n#WatchdogSec=0\nNice=1\n'
  severity: warning
  line: 1
  says: WatchdogSec=30s
- name: an invalid value, which systemd ignores
  version: v1.31.2
  file: /etc/systemd/system/kubelet.service.d/50-x.conf
  text: '[Service]\nWatchdogSec=soon\n'
- name: in a section where systemd ignores it
  version: v1.37.1
  file: /etc/systemd/system/kubelet.service.d/50-x.conf
  text: '[Unit]\nWatchdogSec=1\n'
- name: the site writes the unit
  version: v1.37.1
  loaded: 30
  file: /etc/systemd/system/kubelet.service
  text: '[Service]\nExecStart=/usr/bin/kubelet\nWatchdogSec=1\n'
  severity: error
  line: 11
  says: configure watchdog timeout too small
- name: the site writes a unit without one
  version: v1.31.2
  loaded: 30
  file: /etc/systemd/system/kubelet.service
  text: '[Service]\nExecStart=/usr/bin/kubelet\n'
- name: for ever
  version: v1.31.2
  file: /etc/systemd/system/kubelet.service.d/50-x.conf
  text: '[Service]\nWatchdogSec=infinity\n'
`) {
		source := usualWith(map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &c.Version}),
			tape.KindUnit: tape.Unit.Answer(tape.UnitAns{Load: "loaded", Start: &tape.StartAns{
				Words:          []string{"/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml"},
				WatchdogMicros: int64(c.Loaded) * 1e6,
			}}),
		})
		p := Run(t.Context(), mustParse(t, rulesSite(cmp.Or(c.Patch, "{ maxPods = 20 }"), siteFile(c.File, c.Text))), RunInput{Source: source})
		checkOne(t, c.Name, ofMachine(p), c.Severity, c.Line, c.Says)
	}
}

// TestLogind checks a shutdownGracePeriod against logind and its drop-ins, those that the site writes included. A
// recording without the answer has no message, and a site without a period asks nothing.
func TestLogind(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name, Patch string          // patch: of a period, if empty
		Answer      *tape.LogindAns // nil: a recording without it
		File, Text  string          // what the site writes
		Says        string
		NotAsked    bool
	}](t, `
- {name: no period, patch: '{ maxPods = 20 }', notAsked: true}
- {name: a period of zero, patch: '{ shutdownGracePeriod = "0s" }', notAsked: true}
- {name: a recording that is older}
- {name: the kubelet raises it, answer: {delay_us: 5000000}}
- name: an earlier drop-in
  answer: {delay_us: 5000000, drop_ins: [{path: /etc/systemd/logind.conf.d/10-x.conf, value: '5'}]}
- name: a late drop-in
  answer:
    delay_us: 30000000
    drop_ins: [{path: /usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf, value: '30'}]
  says: 30s at most
- name: a late drop-in, before logind runs
  answer: {drop_ins: [{path: /usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf, value: '30'}]}
  says: 30s at most
- name: a later one is longer
  answer:
    drop_ins:
      - {path: /usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf, value: '30'}
      - {path: /etc/systemd/logind.conf.d/zz.conf, value: 2min}
- name: an invalid one
  answer:
    drop_ins: [{path: /usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf, value: half a minute}]
- name: the site writes a longer one
  answer:
    delay_us: 30000000
    drop_ins: [{path: /usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf, value: '30'}]
  file: /etc/systemd/logind.conf.d/zz.conf
  text: '[Login]\nInhibitDelayMaxSec=60\n'
- name: the site replaces it
  answer:
    delay_us: 30000000
    drop_ins: [{path: /usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf, value: '30'}]
  file: /etc/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf
  text: '# nothing\n'
- name: the site writes a shorter one
  answer: {delay_us: 5000000}
  file: /etc/systemd/logind.conf.d/zz.conf
  text: '[Login]\nInhibitDelayMaxSec=10s\n'
  says: 10s at most
- name: a read-only /etc
  answer: {delay_us: 5000000, read_only: true}
  says: read-only file system
- name: a read-only /etc of a logind that is right
  answer: {delay_us: 60000000, read_only: true}
- {name: no logind, answer: {missing: true}, says: not installed or masked}
`) {
		version := "v1.37.1"
		answers := map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &version}),
			tape.KindLogind:  tape.Failure(fault.Unread, "", ""),
		}
		if c.Answer != nil {
			answers[tape.KindLogind] = tape.Logind.Answer(*c.Answer)
		}
		p := Run(t.Context(), mustParse(t, rulesSite(cmp.Or(c.Patch, `{ shutdownGracePeriod = "60s" }`), siteFile(c.File, c.Text))), RunInput{Source: usualWith(answers)})
		checkOne(t, c.Name, ofMachine(p), "warning", 6, c.Says)
		isAsked := slices.ContainsFunc(p.Tape.Entries(), func(e tape.Entry) bool { return e.Kind == tape.KindLogind })
		if isAsked == c.NotAsked {
			t.Errorf("%s: got asked: %t, want %t", c.Name, isAsked, !c.NotAsked)
		}
	}
}
