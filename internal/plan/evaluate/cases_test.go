package evaluate

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages/builtin"
)

var update = flag.Bool("update", false, "write what came out into the cases")

// TestCheck and TestRun read one case a file: a site, what the world answers, and what is expected. The comment on
// top of the file says which sentence of the language it holds. A check is of the version in its file "kubelet".
func TestCheck(t *testing.T) {
	runCases(t, "testdata/check", func(t *testing.T, a *txtar.Archive) string {
		s, diags := parseCase(a)
		if !diags.HasErrors() {
			o := CheckOptions{Kubelet: strings.TrimSpace(readPart(a, "kubelet"))}
			if readPart(a, "world") != "" {
				o.Locks, o.Objects = fakeWorld(t, a), fakeWorld(t, a)
			}
			diags = append(diags, Check(s, SampleMachines(), o)...)
		}
		return showDiagnostics(diags)
	})
}

func TestRun(t *testing.T) {
	runCases(t, "testdata/run", func(t *testing.T, a *txtar.Archive) string {
		s, diags := parseCase(a)
		if diags.HasErrors() {
			return showDiagnostics(diags)
		}
		p := Run(context.Background(), s, RunInput{Source: fakeWorld(t, a), Now: time.Now})
		again, _ := parseCase(a)
		rec := &tape.Recording{Entries: p.Tape.Entries()}
		q := Run(context.Background(), again, RunInput{Source: rec.Source()})
		got := showPlan(p) + showUnits(p)
		if d := cmp.Diff(got, showPlan(q)+showUnits(q)); d != "" &&
			!strings.Contains(string(a.Comment), "not replayed") {
			t.Errorf("the plan of its own recording differs (-want +got):\n%s", d)
		}
		for _, f := range p.Node.Files {
			checkArgv(t, f)
		}
		return got
	})
}

// checkArgv checks that a planned file of flags has the words that systemd reads from its text, in one variable.
func checkArgv(t *testing.T, f desired.File) {
	if len(f.Argv) == 0 {
		return
	}
	env, err := kubelet.ParseEnvFile(f.Text.Template())
	must(t, err)
	if !slices.ContainsFunc(env.Names(), func(variable string) bool {
		flags, _ := env.Get(variable)
		return slices.Equal(flags.Argv(), f.Argv)
	}) {
		t.Errorf("got words %q, want those of a variable of\n%s", f.Argv, env)
	}
}

func runCases(t *testing.T, dir string, run func(*testing.T, *txtar.Archive) string) {
	names, err := filepath.Glob(dir + "/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("cases in %s: got none, %v; want some", dir, err)
	}
	for _, n := range names {
		t.Run(strings.TrimSuffix(filepath.Base(n), ".txt"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(n)
			must(t, err)
			got := run(t, a)
			if *update {
				a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
				must(t, os.WriteFile(n, txtar.Format(a), 0o644))
				return
			}
			if d := cmp.Diff(readPart(a, "want"), got); d != "" {
				t.Errorf("the case differs (-want +got):\n%s", d)
			}
		})
	}
}

func readPart(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// newCase returns a case of one file.
func newCase(name, text string) *txtar.Archive {
	return &txtar.Archive{Files: []txtar.File{{Name: name, Data: []byte(text)}}}
}

func parseCase(a *txtar.Archive) (*lang.Site, hcl.Diagnostics) {
	var files []tape.SiteFile
	for _, f := range a.Files {
		if lang.IsSiteFile(f.Name) {
			files = append(files, tape.SiteFile{Name: f.Name, Text: string(f.Data)})
		}
	}
	return lang.Parse(files, lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"})
}

func showDiagnostics(ds hcl.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		kind, at := "error", "-"
		if d.Severity == hcl.DiagWarning {
			kind = "warning"
		}
		if origin.IsNote(d) {
			kind = "note"
		}
		if d.Subject != nil {
			at = fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		fmt.Fprintf(&b, "%s %s %s %s: %s\n", kind, origin.CodeOf(d), at, d.Summary, d.Detail)
	}
	return b.String()
}

// showPlan is all that a plan promises, one fact a line.
func showPlan(p *Plan) string {
	var b strings.Builder
	b.WriteString(showDiagnostics(p.Diagnostics))
	for _, s := range p.Stages {
		if s.State != stateOK {
			fmt.Fprintf(&b, "state %s %s\n", s.Address, s.State)
		}
	}
	for _, d := range p.Degraded {
		fmt.Fprintf(&b, "degraded %s %s\n", d.Code, d.Summary)
	}
	for _, l := range p.Node.Labels {
		fmt.Fprintf(&b, "label %s=%s\n", l.Key, l.Value)
	}
	for _, t := range p.Node.Taints {
		fmt.Fprintf(&b, "taint %s\n", t)
	}
	for _, f := range p.Node.Flags {
		fmt.Fprintf(&b, "flag %s=%s\n", f.Name, f.Value)
	}
	for _, s := range p.Node.Settings {
		fmt.Fprintf(&b, "setting %s %s\n", s.Pointer(), showSetting(s))
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "file %s %s %04o", c.Action, c.File.Path, c.File.Mode)
		if len(c.File.Text.Secrets()) > 0 {
			fmt.Fprintf(&b, " secrets %v", c.File.Text.Secrets())
		}
		if c.File.Purpose == "file" {
			fmt.Fprintf(&b, " %q", c.File.Text.String())
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "complete %t exit %d\n", p.Complete, origin.Code(p.Diagnostics).Exit())
	if (p.Hash != "") != p.Complete {
		fmt.Fprintf(&b, "a hash %q of a plan that is complete: %t\n", p.Hash, p.Complete)
	}
	return b.String()
}

func showSetting(s interface{ Pointer() string }) string {
	text, _ := json.Marshal(s)
	return strings.TrimSpace(string(text))
}

const testKubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// fakeWorld answers as a bare machine in a good cluster would, but for what the case's file "world" says:
// lines "KIND PART-OF-THE-ARGUMENTS => ANSWER AS JSON", or "=> hang", "=> panic". The file "facts" holds facts, JSON,
// laid over those of the bare machine.
func fakeWorld(t testing.TB, a *txtar.Archive) tape.Source {
	t.Helper()
	type rule struct{ kind, part, answer string }
	var rules []rule
	for _, line := range strings.Split(readPart(a, "world"), "\n") {
		left, answer, ok := strings.Cut(line, " => ")
		if !ok {
			continue
		}
		kind, args, _ := strings.Cut(strings.TrimSpace(left), " ")
		rules = append(rules, rule{kind, args, answer})
	}
	facts := map[string]any{}
	b, err := json.Marshal(makeBareVM())
	if err == nil {
		err = json.Unmarshal(b, &facts)
	}
	over := map[string]any{}
	if text := readPart(a, "facts"); text != "" && err == nil {
		err = json.Unmarshal([]byte(text), &over)
	}
	maps.Copy(facts, over)
	must(t, err)
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		for _, r := range rules {
			if r.kind != string(q.Kind) || !strings.Contains(q.Args, r.part) {
				continue
			}
			switch r.answer {
			case "hang":
				select {} // for ever, whatever ctx says
			case "wait":
				<-ctx.Done()
				return tape.Failure(fault.ClusterUnreachable, "no server answered", "")
			case "panic":
				panic("a broken adapter")
			}
			text := fmt.Sprintf(
				`{"format": 1, "answers": [{"kind": %q, "args": %s, "answer": %s}]}`,
				q.Kind,
				q.Args,
				r.answer,
			)
			recording, err := tape.Decode(strings.NewReader(text))
			if err != nil {
				panic(r.answer + ": " + err.Error())
			}
			return recording.Entries[0].Answer
		}
		return answerAsUsual(q, facts)
	})
}

// usualSource answers as a good machine would, of which no facts are known.
func usualSource() tape.Source { return usualWith(nil) }

// usualWith is usualSource with other answers to questions of some kinds.
func usualWith(others map[tape.Kind]tape.Answer) tape.Source {
	return tape.SourceFunc(func(_ context.Context, q tape.Question) tape.Answer {
		if a, ok := others[q.Kind]; ok {
			return a
		}
		return answerAsUsual(q, nil)
	})
}

func answerAsUsual(q tape.Question, facts any) tape.Answer {
	answer := func(v any) tape.Answer {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return tape.Answer{Value: b}
	}
	switch q.Kind {
	case tape.KindOwner:
		return tape.Owner.Answer(tape.OwnerAns{})
	case tape.KindLock: // as in a recording that is older than locks
		return tape.Failure(fault.Unread, "", "")
	case tape.KindHardware:
		return answer(facts)
	case tape.KindKubelet:
		version := "v1.36.3"
		return answer(tape.KubeletAns{Version: &version})
	case tape.KindObject:
		return answer(tape.ObjectAns{ResourceVersion: "7", Data: map[string]string{"kubelet": testKubeletConfig}})
	case tape.KindTrust:
		return answer(
			tape.TrustAns{PEM: "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", Hash: "sha256:00",
				Servers: []string{"https://192.0.2.1:6443"}, VerifiedBy: "ca_cert_hashes"},
		)
	case tape.KindCredential:
		return answer(tape.CredentialAns{Source: "test"})
	case tape.KindOriginal, tape.KindTarget:
		return answer(tape.TargetAns{})
	case tape.KindManaged:
		return answer(tape.ManagedAns{})
	case tape.KindDetector:
		return tape.Failure(fault.Absent, "not installed", "")
	}
	return tape.Failure(fault.Absent, "it is not there", "")
}

// showUnits returns what follows the changes of a plan that notifies other units than the kubelet's.
func showUnits(p *Plan) string {
	var b strings.Builder
	for _, u := range p.Units {
		fmt.Fprintf(
			&b,
			"unit %s %s %q files %v because %v system %t\n",
			u.Action,
			u.Unit.Unit,
			u.Stage,
			u.Files,
			u.Because,
			u.IsSystem,
		)
	}
	if len(p.Units) > 0 {
		fmt.Fprintf(&b, "kubelet %s restart %t because %v\n", p.Restart.Unit, p.Restart.Needed, p.Restart.Because)
	}
	for _, c := range p.Changes {
		if c.Stays != "" {
			fmt.Fprintf(&b, "stays %s %s\n", c.File.Path, c.Stays)
		}
	}

	return b.String()
}
