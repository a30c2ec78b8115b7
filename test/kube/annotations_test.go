package kube

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotated returns the stages of a site that annotates its Node.
func annotated(pool, revision string) []string {
	return []string{
		"stage \"label\" \"x\" {\n  labels = { \"example.com/pool\" = \"" + pool + "\" }\n}",
		"stage \"write\" \"kubelet\" {}",
		`stage "restart" "kubelet" {
  annotations { revision = "` + revision + `" }
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`,
	}
}

// patches returns how many PATCHes of a Node prelet has sent, by the audit log. They are sent as the node.
func patches(t *testing.T, c *Cluster) (n int) {
	t.Helper()
	all, err := c.Requests("prelet")
	must(t, err)
	for _, r := range all {
		if r.Verb == "patch" && strings.HasPrefix(r.URI, "/api/v1/nodes/n") {
			n++
			if !strings.HasPrefix(r.User.Username, "system:node:") {
				t.Errorf("a PATCH of %s: got user %s, want the node", r.URI, r.User.Username)
			}
		}
	}
	return n
}

// kubectlPrelet runs `kubectl prelet`, with the plugin in $PATH.
func kubectlPrelet(t *testing.T, c *Cluster, args ...string) string {
	t.Helper()
	words := append([]string{"prelet", "--kubeconfig", c.Path("super-admin.conf")}, args...)
	cmd := exec.CommandContext(t.Context(), c.of("kubectl"), words...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(c.Prelet)+":"+os.Getenv("PATH"), "HOME="+c.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %q: got %v, want no error\n%s", words, err, out)
	}
	return string(out)
}

// TestAnnotations reports runs in the annotations of a Node, past the real NodeRestriction plugin; then a policy
// refuses them.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Audit: true})
	m := newMember(t, c, NodeOptions{}, annotated("one", "r1")...)
	want := func(generation, revision string, sent int) {
		t.Helper()
		n, err := c.Node(t.Context(), "n1")
		must(t, err)
		got := n.Annotations
		if got["prelet.github.io/generation"] != generation || got["prelet.github.io/revision"] != revision ||
			!strings.HasPrefix(got["prelet.github.io/plan"], "sha256:") {
			t.Errorf("annotations: got %v, want generation %s, revision %s and a plan", got, generation, revision)
		}
		if n := patches(t, c); n != sent {
			t.Errorf("generation %s, revision %s: got %d PATCHes since the begin, want %d", generation, revision, n, sent)
		}
	}
	want("1", "r1", 1)

	m.run(0)
	want("1", "r1", 1)

	m.site(annotated("two", "r2")...)
	m.run(0)
	want("2", "r2", 2)

	out := kubectlPrelet(t, c)
	if fields := strings.Fields(out); len(fields) < 12 || strings.Join(fields[6:9], " ") != "n1 Ready 2" ||
		fields[10] != "r2" || fields[11] != "-" {
		t.Errorf("kubectl prelet: got\n%s\nwant n1 Ready with generation 2 and revision r2", out)
	}
	var list struct {
		Nodes []struct{ Report struct{ Generation int } }
	}
	must(t, json.Unmarshal([]byte(kubectlPrelet(t, c, "n1", "-o", "json")), &list))
	if len(list.Nodes) != 1 || list.Nodes[0].Report.Generation != 2 {
		t.Errorf("kubectl prelet n1 -o json: got %+v, want generation 2", list)
	}
	if out := kubectlPrelet(t, c, "show", "n1"); !strings.Contains(out, "changed") {
		t.Errorf("kubectl prelet show n1: got\n%s\nwant the time of the last change", out)
	}

	// A rollback by hand is reported too, as the reason why the node is degraded.
	prelet(t, m.Node, 0, "rollback")
	want("3", "r1", 3)
	if out := kubectlPrelet(t, c, "--degraded"); !strings.Contains(out, "held") {
		t.Errorf("kubectl prelet --degraded: got\n%s\nwant n1, which is held", out)
	}
	prelet(t, m.Node, 0, "rollback", "--release")

	refuseIn(t, c, metav1.StatusReasonForbidden, "annotations", "prelet.github.io/generation")
	m.run(0)
	if r := prelet(t, m.Node, 0, "status"); !strings.Contains(strings.Join(strings.Fields(r.Out), " "), "is not allowed here") {
		t.Errorf("refused by a policy: got %s; want status 0 and a note with \"is not allowed here\"", r)
	}
	want("3", "r1", 4)
}
