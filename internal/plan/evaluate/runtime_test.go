package evaluate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
)

// TestRuntimeVerdict checks the finding for each answer of the container runtime, in a run and in the replay of its
// recording.
func TestRuntimeVerdict(t *testing.T) {
	const program, own = "/usr/bin/containerd", "/etc/containerd/conf.d/90-site.toml"
	refuses := func(file string) tape.Answer {
		return tape.ConfigDump.Answer(tape.ConfigDumpAns{Refusal: "got `4`", File: file, Program: program})
	}
	for name, c := range map[string]struct {
		file     string // that the site writes
		answer   tape.Answer
		want     []string // parts of the finding, of which the first is the severity; nil: none
		line     int
		isAsked  bool
		degraded bool
	}{
		"accepts":            {file: own, answer: tape.ConfigDump.Answer(tape.ConfigDumpAns{Program: program}), isAsked: true},
		"refuses the site's": {own, refuses(own), []string{"error", program + " refuses " + own + ": got `4`. Nothing was written"}, 11, true, false},
		"refuses that of others": {
			own, refuses("/etc/containerd/conf.d/10-x.toml"),
			[]string{"error", "refuses /etc/containerd/conf.d/10-x.toml: got `4`. Nothing was written or restarted. The site does not write this file"}, 0, true, false,
		},
		"refuses, and names no file": {own, refuses(""), []string{"error", "refuses its configuration: got `4`"}, 0, true, false},
		"no answer": {
			own, tape.Failure(fault.RuntimeConfig, program+": no answer within 10s", ""),
			[]string{"warning", "was not asked about the plan", "no answer within 10s", "try `containerd config dump`"}, 0, true, true,
		},
		"not asked":               {file: own, answer: tape.Failure(fault.Unread, "", ""), isAsked: true},
		"a file that others read": {file: "/etc/x.conf", answer: refuses("")},
		"nothing changes":         {file: "same", answer: refuses("")},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[tape.Kind]tape.Answer{
				tape.KindConfigDump: c.answer, tape.KindTarget: tape.Target.Answer(tape.TargetAns{}),
			}
			if c.file == "same" {
				c.file = own
				answers[tape.KindTarget] = tape.Target.Answer(tape.TargetAns{
					Exists: true, Mode: 0o644, SHA256: "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a",
				})
			}
			var got judge.FinishedRuntime
			site := mustParse(t, rulesSite("{}", fileBlock(c.file, "k")))
			p := Run(t.Context(), site, RunInput{
				Source:          usualWith(answers),
				FinishedRuntime: func(r judge.FinishedRuntime) { got = r },
			})
			isAsked := slices.ContainsFunc(p.Tape.Entries(), func(e tape.Entry) bool { return e.Kind == tape.KindConfigDump })
			if isAsked != c.isAsked || isAsked && (len(got.Files) != 1 || !slices.Equal(got.Changed, []string{own})) {
				t.Errorf("got asked %t, about %+v; want asked %t, and the site's file", isAsked, got, c.isAsked)
			}

			var text bytes.Buffer
			if err := (&tape.Recording{Entries: p.Tape.Entries()}).Encode(&text); err != nil {
				t.Fatal(err)
			}
			recording, err := tape.Decode(&text)
			if err != nil {
				t.Fatal(err)
			}
			replay := Run(t.Context(), site, RunInput{Source: recording.Source()})
			for run, p := range map[string]*Plan{"the run": p, "its replay": replay} {
				checkRuntimeFinding(t, run, p, c.want, c.line)
				if isDegraded := len(p.Degraded) > 0; isDegraded != c.degraded {
					t.Errorf("%s: degraded: got %v, want %t", run, p.Degraded, c.degraded)
				}
			}
		})
	}
}

// checkRuntimeFinding checks that a plan has one finding about the runtime, or none for want nil.
func checkRuntimeFinding(t *testing.T, run string, p *Plan, want []string, line int) {
	t.Helper()
	var found []string
	at := 0
	for _, d := range p.Diagnostics {
		if origin.CodeOf(d) == fault.RuntimeConfig {
			found = append(found, severityOf(d)+": "+d.Summary+". "+d.Detail)
			if d.Subject != nil {
				at = d.Subject.Start.Line
			}
		}
	}
	text := strings.Join(found, "\n")
	isMissing := func(part string) bool { return !strings.Contains(text, part) }
	if len(found) != min(len(want), 1) || slices.ContainsFunc(want, isMissing) || at != line {
		t.Errorf("%s: got line %d, %q; want line %d, one finding with %q", run, at, text, line, want)
	}
	isRefused := len(want) > 0 && want[0] == "error"
	if p.Complete == isRefused && context.Cause(t.Context()) == nil {
		t.Errorf("%s: got complete %t, want %t", run, p.Complete, !isRefused)
	}
}

// TestRuntimeRestart: a file that containerd does not read, and that restarts it, lets it judge all that it reads.
func TestRuntimeRestart(t *testing.T) {
	const (
		dropIn = "/etc/systemd/system/containerd.service.d/10-proxy.conf"
		other  = "/etc/containerd/conf.d/99-other.toml"
		text   = "[Service]\n"
	)
	refuses := tape.ConfigDump.Answer(tape.ConfigDumpAns{Refusal: "got `4`", File: other, Program: "containerd"})
	for name, c := range map[string]struct {
		unit    string
		inPlace string // the content of the drop-in
		isAsked bool
	}{
		"restarted":   {unit: "containerd.service", isAsked: true},
		"nothing new": {unit: "containerd.service", inPlace: text},
		"other unit":  {unit: "docker.service"},
	} {
		t.Run(name, func(t *testing.T) {
			target := tape.TargetAns{Exists: c.inPlace != "", Mode: 0o644}
			if target.Exists {
				target.SHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte(c.inPlace)))
			}
			block := strings.Replace(fileBlock(dropIn, `[Service]\n`), "path", "notify = [stage.restart.r]\n    path", 1)
			site := mustParse(t, rulesSite("{}", block)+"stage \"restart\" \"r\" {\n  unit = \""+c.unit+"\"\n}\n")
			var asked []judge.FinishedRuntime
			p := Run(t.Context(), site, RunInput{
				Source: usualWith(map[tape.Kind]tape.Answer{
					tape.KindConfigDump: refuses, tape.KindTarget: tape.Target.Answer(target),
				}),
				FinishedRuntime: func(r judge.FinishedRuntime) { asked = append(asked, r) },
			})
			if (len(asked) == 1) != c.isAsked || c.isAsked && asked[0].Changed != nil {
				t.Errorf("got asked %+v; want asked %t, about all files", asked, c.isAsked)
			}
			if isRefused := p.Code() == fault.RuntimeConfig; isRefused != c.isAsked {
				t.Errorf("got %s; want refused %t", showPlan(p), c.isAsked)
			}
		})
	}
}
