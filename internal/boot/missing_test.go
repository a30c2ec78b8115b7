package boot

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// TestEachAnswerMissing removes one answer after the other from the recording of each case. Everything that depends on
// the other answers must be unchanged, the missing parts must be named, and no part may look as if it were deleted or
// wrong.
func TestEachAnswerMissing(t *testing.T) {
	names, err := filepath.Glob("testdata/run/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, n := range append(names, "gpu") {
		a := gpuCase(t)
		if n != "gpu" {
			if a, err = txtar.ParseFile(n); err != nil {
				t.Fatalf("read case %s: got error %v, want none", n, err)
			}
		}
		s, diags := parseCase(a)
		if diags.HasErrors() || strings.Contains(string(a.Comment), "not replayed") {
			continue // no recording can be made of it
		}

		t.Run(strings.TrimSuffix(filepath.Base(n), ".txt"), func(t *testing.T) {
			t.Parallel()
			whole := Run(context.Background(), s, Options{Source: fakeWorld(t, a)})
			all := whole.Tape.Entries()
			for i := range all {
				if hasDefault(whole, all[i].Question) {
					continue
				}
				rec := world.Recording{Entries: slices.Delete(slices.Clone(all), i, i+1)}
				again, _ := parseCase(a)
				for _, problem := range compareWithout(whole, again, rec) {
					t.Errorf("without %s: %s", all[i].Question, problem)
				}
			}
		})
	}
}

// hasDefault reports whether a question has an answer for recordings that are older: see "Older recordings" in
// docs/explanation/one-boot-one-function.md.
func hasDefault(p *Plan, q world.Question) bool {
	isStub := func(d *hcl.Diagnostic) bool { return strings.Contains(d.Summary, "stub") }
	isState := func(c Change) bool {
		return c.File.Purpose == "state" && strings.Contains(c.Why, "this boot") &&
			strings.Contains(q.Args, c.File.Path)
	}

	isStart := q.Kind == world.KindUnit && strings.Contains(q.Args, `"start":true`)

	isKubeadms := q.Kind == world.KindOriginal && strings.Contains(q.Args, "kubeadm-flags.env")

	return q.Kind == "node" || q.Kind == world.KindPackages || q.Kind == world.KindHost || isStart || isKubeadms ||
		q.Kind == world.KindExists && slices.ContainsFunc(p.Diagnostics, isStub) ||
		q.Kind == world.KindTarget && slices.ContainsFunc(p.Changes, isState)
}

func compareWithout(whole *Plan, s *lang.Site, rec world.Recording) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	p := Run(context.Background(), s, Options{Source: rec.Source()})
	if showPlan(p) == showPlan(whole) {
		return nil // nothing depends on it: the token of a node that has joined
	}
	if p.Complete || p.Hash != "" {
		say("the plan is complete")
	}
	if len(p.Unread) == 0 && !whole.Diagnostics.HasErrors() {
		say("nothing is named:\n%s", showPlan(p))
	}
	if whole.Diagnostics.HasErrors() {
		return problems // with an error the rest is not promised
	}
	known := map[string]bool{}
	for _, d := range whole.Diagnostics {
		known[d.Summary] = true
	}
	for _, d := range p.Diagnostics {
		if code := origin.CodeOf(d); !known[d.Summary] && code != fault.Unread && !origin.IsNote(d) {
			say("a new message: %s %s", code, d)
		}
	}
	for _, l := range p.Node.Labels {
		if !slices.ContainsFunc(
			whole.Node.Labels,
			func(w node.Label) bool { return w.Key == l.Key && w.Value == l.Value },
		) {
			say("label %s=%s is new", l.Key, l.Value)
		}
	}
	for _, x := range p.Node.Taints {
		if !slices.ContainsFunc(whole.Node.Taints, func(w node.Taint) bool { return w.String() == x.String() }) {
			say("taint %s is new", x)
		}
	}
	for _, c := range p.Changes {
		at := slices.IndexFunc(whole.Changes, func(w Change) bool { return w.File.Path == c.File.Path })
		switch {
		case at < 0:
			say("%s of %s is new", c.Action, c.File.Path)
		case whole.Changes[at].Action != c.Action:
			say("%s of %s was %s", c.Action, c.File.Path, whole.Changes[at].Action)
		case whole.Changes[at].File.Text.Template() != c.File.Text.Template():
			say("%s has another text", c.File.Path)
		}
	}
	m, _, err := world.Managed.Ask(context.Background(), rec.Source(), world.ManagedReq{})
	if err != nil {
		return problems // what stood in the generation in place is what was taken out
	}
	for _, t := range m.Targets {
		is := func(c Change) bool { return c.File.Path == t.Path }
		theirs := t.Purpose == "bootstrap-kubeconfig" || t.Purpose == "state" || t.Purpose == purposeIdentity ||
			t.Action == "none"
		if !theirs && slices.ContainsFunc(whole.Changes, is) && !slices.ContainsFunc(p.Changes, is) &&
			!slices.Contains(p.Unjudged, t.Path) {
			say("%s is not reported, which a generation has written", t.Path)
		}
	}
	return problems
}

// TestUnexplained checks that a plan with an unknown that no question explains says so: such a run would end with 70
// and no word.
func TestUnexplained(t *testing.T) {
	p := progress{site: &lang.Site{}, tape: world.NewTape(nil), rendered: Rendered{isDone: true}}
	p.Unknown = newUnknowns(nil, partLabels, partFlags)

	plan := p.makePlan()
	if got := showDiagnostics(plan.Diagnostics); !strings.Contains(got, "Unknown: flags, labels.") {
		t.Errorf("got %q, want an error that names the flags and labels", got)
	}
}
