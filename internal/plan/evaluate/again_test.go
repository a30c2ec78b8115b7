package evaluate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages/builtin"
)

// withVersion answers with another version of the kubelet. The tables answer for its binary.
func withVersion(source tape.Source, version string) tape.Source {
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		a := source.Ask(ctx, q)
		switch q.Kind {
		case tape.KindAccepts:
			return tape.Failure(fault.Unread, "tables answer for the assumed kubelet", "")
		case tape.KindKubelet:
			var k tape.KubeletAns
			_ = json.Unmarshal(a.Value, &k)
			version := "v" + version
			k.Version = &version
			return tape.Kubelet.Answer(k)
		}
		return a
	})
}

// readRecorded returns the recordings of the repository.
func readRecorded(t *testing.T) map[string]*tape.Recording {
	t.Helper()

	all := map[string]*tape.Recording{}
	for _, pattern := range []string{recordings + "/v*/*.prelet", "../../../testdata/stability/*/*.prelet.gz"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			f, err := os.Open(name)
			must(t, err)
			defer f.Close()
			if all[name], err = tape.Decode(f); err != nil {
				t.Fatalf("%s: got %v, want a recording", name, err)
			}
		}
	}
	if len(all) < 20 {
		t.Fatalf("recordings: got %d, want 20 or more", len(all))
	}

	return all
}

// TestWithKubelets compares the plans of newer kubelets with those of runs from the beginning, over each recording: the
// node, what it leaves to pods, declared features, and what the kubelet rejects, ignores or does differently.
func TestWithKubelets(t *testing.T) {
	newest := known.Newest()
	oldest := newest - 6
	var versions []string
	for minor := oldest + 1; minor <= newest; minor++ {
		versions = append(versions, known.Version(minor))
	}

	checked, planned := 0, 0
	for name, rec := range readRecorded(t) {
		s, diags := lang.Parse(rec.Header.Site, lang.LoadOptions{Stages: builtin.Stages(), Version: "0.2.0"})
		if diags.HasErrors() {
			t.Fatalf("%s: got %v, want a site", name, diags)
		}
		run := func(version string) *Plan {
			return Run(t.Context(), s, RunInput{Source: withVersion(rec.Source(), version), Advises: true})
		}

		old := run(known.Version(oldest))
		newer := old.WithKubelets(t.Context(), versions)
		if old.afterRender != nil && len(newer) != len(versions) {
			t.Fatalf("%s: got %d plans, want %d", name, len(newer), len(versions))
		}
		for i, p := range newer {
			planned++
			if old.checkRulesAgain(t.Context(), versions[i]) != nil {
				checked++
			}
			if got, want := describeAgain(p), describeAgain(run(versions[i])); got != want {
				t.Errorf("%s, kubelet %s: (-want +got)\n%s", name, versions[i], cmp.Diff(want, got))
			}
		}
	}
	if planned < 100 || checked < 50 {
		t.Errorf("got %d plans, %d of them only checked; want 100 and 50 or more", planned, checked)
	}
	t.Logf("%d plans, %d only checked", planned, checked)
}

// describeAgain returns what a report of newer kubelets uses of a plan. What compares it with the disk is left out.
func describeAgain(p *Plan) string {
	var found hcl.Diagnostics
	for _, d := range p.Diagnostics {
		if e, _ := d.Extra.(origin.Extra); e.Rule != "" {
			found = append(found, d)
		}
	}
	node := []any{p.Node.Stored(), p.Node.Effective, p.Node.Reserved}
	text, err := json.MarshalIndent([]any{found, node, p.Declares, p.Kubelet}, "", " ")
	if err != nil {
		panic(err)
	}

	return string(text)
}
