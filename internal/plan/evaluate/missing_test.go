package evaluate

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/sample"
)

// TestEachAnswerMissing removes one answer after the other from the recording of each case: no plan may look as if what
// the recording lacks were missing on the node. A sample of the answers is removed.
func TestEachAnswerMissing(t *testing.T) {
	chosen := sample.New(t)
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
			whole := Run(context.Background(), s, RunInput{Source: fakeWorld(t, a)})
			all := whole.Tape.Entries()
			for i := range all {
				if hasDefault(all[i].Question) || !chosen.Has(sample.Quarter(5), n, i) {
					continue
				}
				rec := tape.Recording{Entries: slices.Delete(slices.Clone(all), i, i+1)}
				again, _ := parseCase(a)
				if problem := compareWithout(whole, again, rec); problem != "" {
					t.Errorf("without %s: %s", all[i].Question, problem)
				}
			}
		})
	}
}

// hasDefault reports whether a question has an answer for recordings that are older: see "Older recordings" in
// docs/operators/stability.md.
func hasDefault(q tape.Question) bool {
	isOfKubeadm := q.Kind == tape.KindOriginal && strings.Contains(q.Args, "kubeadm-flags.env")
	isStart := q.Kind == tape.KindUnit && strings.Contains(q.Args, `"start":true`)

	return isOfKubeadm || isStart || slices.Contains([]tape.Kind{
		tape.KindNode, tape.KindPackages, tape.KindHost, tape.KindExists, tape.KindServing, tape.KindTarget,
		tape.KindManaged,
	}, q.Kind)
}

// compareWithout returns how a plan without an answer breaks the promise: it is the same, or fails with the code of a
// missing answer.
func compareWithout(whole *Plan, s *lang.Site, rec tape.Recording) string {
	p := Run(context.Background(), s, RunInput{Source: rec.Source()})
	isRefused := p.Code() == fault.Unread && !p.Complete && p.Hash == ""
	if isRefused || whole.Diagnostics.HasErrors() && p.Diagnostics.HasErrors() || showPlan(p) == showPlan(whole) {
		return ""
	}

	return fmt.Sprintf("got\n%s\nwant the same plan, or an error with the code unread:\n%s", showPlan(p), showPlan(whole))
}

// TestPartial checks that a plan that is only examined has what does not depend on an object that was not asked for.
func TestPartial(t *testing.T) {
	s := mustParse(t, "cluster {\n  servers = [\"192.0.2.1:6443\"]\n  ca_cert_hashes = [\"sha256:"+strings.Repeat("0", 64)+
		"\"]\n  token = credential(\"t\")\n}\n"+
		"stage \"fetch-config\" \"c\" {\n  config_map = \"a/b\"\n}\n"+
		"stage \"label\" \"a\" {\n  labels = { a = \"1\", b = stage.fetch-config.c.data[\"x\"] }\n}\n"+
		"stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { when = false }\n}\n")
	src := usualWith(map[tape.Kind]tape.Answer{tape.KindObject: tape.Failure(fault.Unread, "not asked", "")})
	p := Run(t.Context(), s, RunInput{Source: src, IsPartial: true})
	if p.Diagnostics.HasErrors() || p.Complete || !strings.Contains(showPlan(p), "label a=1\n") {
		t.Errorf("got %s\nwant the label a, no error and no complete plan", showPlan(p))
	}
	if p := Run(t.Context(), s, RunInput{Source: src}); p.Code() != fault.Unread {
		t.Errorf("of a whole run: got %s\nwant the code unread", showPlan(p))
	}
}

// TestUnexplained checks that an unknown output of a stage on a machine is an error of prelet.
func TestUnexplained(t *testing.T) {
	s := mustParse(t, "stage \"label\" \"a\" {\n  labels = {}\n}\n")
	e := eval.New(t.Context(), s, usualSource())
	if got := showDiagnostics(checkKnown(e, s.Stages[0], cty.DynamicVal)); !strings.Contains(got, "stage label.a") {
		t.Errorf("got %q, want an error that names the stage", got)
	}
	if got := checkKnown(e.Partial(), s.Stages[0], cty.DynamicVal); got != nil {
		t.Errorf("of a partial run: got %s, want none", showDiagnostics(got))
	}
}
