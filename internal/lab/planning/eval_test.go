package planning

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// evalTest evaluates an expression of a session, which must have a value, and returns it with its plan.
func evalTest(t *testing.T, s *Session, text string) (value string, plan *evaluate.Plan) {
	t.Helper()
	show := func(x Evaluated) error {
		value, plan = x.Value, x.Plan
		if x.Plan.Diagnostics.HasErrors() {
			t.Errorf("%s: %v", text, x.Plan.Diagnostics)
		}
		return nil
	}
	if _, err := s.Eval(t.Context(), text, func(string) {}, show); err != nil {
		t.Errorf("%s: %v", text, err)
	}

	return value, plan
}

// A session reads a recording once, and has one plan of it.
func TestSessionOfRecording(t *testing.T) {
	b, err := os.ReadFile("../../../testdata/recordings/v1/gpu.prelet")
	must(t, err)
	s := &Session{Env: newTestEnv(), Request: lab.Request{From: writeTestFile(t, "a.prelet", string(b))}}
	defer s.Close()

	_, first := evalTest(t, s, "node.labels")
	must(t, os.Remove(s.From))
	for _, text := range []string{"1 + 1", "node.labels", `stage["detect-hw"].node.memory`} {
		if value, plan := evalTest(t, s, text); plan != first || value == "" {
			t.Errorf("%s: value %q, the first plan: %v; want a value of the first plan", text, value, plan == first)
		}
	}
}

// A session of a node reads each file once, also when an expression needs a larger plan than that before it. A failure
// is not kept.
func TestSessionOfNode(t *testing.T) {
	root := t.TempDir()
	osfile.WriteTree(t, root, map[string]string{"etc/a": "old", "site.hcl": "stage {"})
	must(t, errors.Join(os.Chmod(root, 0o755), os.Chmod(filepath.Join(root, "etc/a"), 0o644)))
	w := lab.Request{Where: machine.Where{Root: root, Config: []string{filepath.Join(root, "site.hcl")}}}
	s := &Session{Env: newTestEnv(), Request: w}
	defer s.Close()

	failed := false
	_, err := s.Eval(t.Context(), `file("/etc/a")`, nil, func(x Evaluated) error {
		failed = x.Plan.Diagnostics.HasErrors()
		return nil
	})
	if err != nil || !failed {
		t.Fatalf("a site with an error: %v, failed %v; want a plan with an error", err, failed)
	}

	site := `stage "label" "a" { labels = { "example.com/a" = file("/etc/a") } }
stage "write" "kubelet" {
  kubelet_config { when = false }
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
}`
	osfile.WriteTree(t, root, map[string]string{"site.hcl": site})
	if got, _ := evalTest(t, s, `file("/etc/a")`); got != `"old"` {
		t.Errorf("the first value is %s, want \"old\"", got)
	}
	osfile.WriteTree(t, root, map[string]string{"etc/a": "new", "site.hcl": "stage {"})
	_, small := evalTest(t, s, "1 + 1")
	got, whole := evalTest(t, s, `node.labels["example.com/a"]`)
	if got != `"old"` || whole == small {
		t.Errorf("a whole plan has the label %s, the small plan: %v; want the first answer in another plan", got, whole == small)
	}
	if _, last := evalTest(t, s, "1 + 1"); last != whole {
		t.Error("the whole plan is not kept")
	}

	osfile.WriteTree(t, root, map[string]string{"site.hcl": site})
	next := &Session{Env: newTestEnv(), Request: w}
	defer next.Close()
	if got, _ := evalTest(t, next, `file("/etc/a")`); got != `"new"` {
		t.Errorf("another session has %s, want \"new\"", got)
	}
}
