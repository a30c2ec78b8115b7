package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/testfile"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// TestHermeticKnowsEachKind checks that a test decides for each kind of question what answers it.
func TestHermeticKnowsEachKind(t *testing.T) {
	answer := world.SourceFunc(func(context.Context, world.Question) world.Answer {
		return world.Failure(fault.Absent, "asked", "")
	})
	h := hermetic{node: answer, objects: answer, locks: answer, site: &lang.Site{}}

	for _, kind := range world.Kinds() {
		a := h.Ask(t.Context(), world.Question{Kind: kind, Args: "{}"})
		if unknown := world.NoAdapter(kind); a.Why() == unknown.Why() {
			t.Errorf("%s: got %q, want the kind in the cases of hermetic.Ask", kind, a.Why())
		}
	}
}

// TestHermetic holds that no question of a kind that needs a network, a credential or a program reaches the machine.
func TestHermetic(t *testing.T) {
	h := hermetic{
		node: world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
			t.Errorf("got the question %s, want none", q)
			return world.NoAdapter(q.Kind)
		}),
		objects: sampleObjects(),
		locks: world.SourceFunc(func(context.Context, world.Question) world.Answer {
			return world.Failure(fault.Absent, "no lock", "")
		}),
		site: &lang.Site{},
	}
	pinned := world.Access{Servers: []string{"https://10.0.0.1:6443"}, CACertHashes: []string{"sha256:00"}}
	for name, c := range map[string]struct {
		q    world.Question
		want fault.Code
		text string
	}{
		"credential": {world.Credential.Question(world.CredentialReq{Name: "token"}), "", "credential"},
		"trust":      {world.Trust.Question(world.TrustReq{Access: pinned}), "", "BEGIN CERTIFICATE"},
		"object": {
			world.Object.Question(world.ObjectReq{Access: pinned, Namespace: "kube-system", Name: "kubelet-config"}),
			"",
			"KubeletConfiguration",
		},
		"missing": {
			world.Object.Question(world.ObjectReq{Access: pinned, Namespace: "kube-system", Name: "other"}),
			fault.Absent,
			"kube-system/other is not given",
		},
		"lock":     {world.Lock.Question(world.LockReq{Name: "nvidia"}), fault.Absent, `"nvidia"`},
		"detector": {world.Detector.Question(world.DetectorReq{Name: "nvidia"}), fault.Absent, `"nvidia"`},
		"node":     {world.Node.Question(world.NodeReq{Access: pinned, Name: "n1"}), "", "n1"},
		"owner":    {world.Owner.Question(world.OwnerReq{Owner: "a:b"}), "", "{}"},
	} {
		a := h.Ask(context.Background(), c.q)
		got := string(a.Value) + a.Why()
		if a.Code() != c.want || !strings.Contains(got, c.text) {
			t.Errorf("%s: got %q, %s; want %q and a text with %q", name, a.Code(), got, c.want, c.text)
		}
	}
}

// TestManyRunsLoadOneSite holds that a site is loaded once for all files of tests, and that results keep their order.
func TestManyRunsLoadOneSite(t *testing.T) {
	dir := t.TempDir()
	facts, err := filepath.Abs("../../testdata/hardware/facts/bare-vm.json")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"site.hcl":         "stage \"detect-hw\" \"node\" {}\nstage \"label\" \"a\" {\n  labels = { a = \"b\" }\n}\n",
		"a.prelettest.hcl": "",
		"b.prelettest.hcl": "",
	}
	var want []string
	for _, name := range []string{"a", "b"} {
		for _, run := range []string{"3", "1", "2"} {
			files[name+".prelettest.hcl"] += "run \"" + run + "\" { hardware = \"" + facts + "\" }\n"
			want = append(want, name+run)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	e := &Env{Version: "0.1.0", Getenv: func(string) string { return "" }, Redactor: value.NewRedactor()}
	s, err := e.loadTests(TestOptions{Paths: []string{dir}})
	if err != nil || s.tests.Diagnostics.HasErrors() || len(s.sites) != 1 {
		t.Fatalf("got %d sites, %v, %v; want one and no error", len(s.sites), err, s.tests.Diagnostics)
	}

	var got []string
	found, err := e.Test(context.Background(), TestOptions{Paths: []string{dir}},
		func(_ *lang.Site, r testfile.Result) error {
			got = append(got, strings.TrimSuffix(filepath.Base(r.File), ".prelettest.hcl")+r.Run)
			return nil
		})
	if err != nil || found.Runs != 6 || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %d runs %q, %v; want %q in this order", found.Runs, got, err, want)
	}
}
