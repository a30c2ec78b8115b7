package kube

import (
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const tainting = `stage "write" "kubelet" {}
stage "restart" "kubelet" {
  taint_credential = "node-taints"
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`

func taintStage(taints ...string) string {
	return "stage \"taint\" \"x\" {\n  taints = [\"" + strings.Join(taints, `", "`) + "\"]\n}\n"
}

// taintsOf returns the taints of a Node as KEY=VALUE:EFFECT, without those of Kubernetes itself, sorted.
func taintsOf(t *testing.T, c *Cluster, name string) (out []string) {
	t.Helper()
	n, err := c.Node(t.Context(), name)
	must(t, err)
	for _, x := range n.Spec.Taints {
		if !strings.HasPrefix(x.Key, "node.kubernetes.io/") {
			out = append(out, x.ToString())
		}
	}
	slices.Sort(out)
	return out
}

func wantTaints(t *testing.T, c *Cluster, what string, want ...string) {
	t.Helper()
	if got := taintsOf(t, c, "n1"); !slices.Equal(got, want) {
		t.Errorf("%s: got taints %q, want %q", what, got, want)
	}
}

// allowTainter gives the user tainter the right to patch Nodes.
func allowTainter(t *testing.T, c *Cluster) {
	t.Helper()
	_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbac.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tainter"},
		Rules:      []rbac.PolicyRule{{Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tainter"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "tainter"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: "tainter"}},
	}, metav1.CreateOptions{})
	must(t, err)
}

func (m member) tainter(user string, from time.Time) {
	m.t.Helper()
	cert := authorityOf(m.t, m.c).issue(m.t, pkix.Name{CommonName: user}, from)
	must(m.t, m.Credential("node-taints", pemOf(m.t, cert)))
}

// TestTaintCredential puts the taints of the site on a node that has joined, past the real NodeRestriction plugin, with a
// credential that may patch Nodes. Taints of others stay, with their times; a startup taint is never put back.
func TestTaintCredential(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	allowTainter(t, c)
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	m.tainter("tainter", time.Now().Add(-time.Hour))
	const startup = "readiness.k8s.io/gpu:NoSchedule"
	m.site(taintStage("example.com/a=b:NoSchedule", startup), tainting)
	if r := m.run(0); strings.Contains(r.Err, "error") {
		t.Errorf("run: got %s, want no error", r)
	}
	_, err = c.Ready(t.Context(), "n1")
	must(t, err)
	wantTaints(t, c, "after the join", "example.com/a=b:NoSchedule", startup)

	// The owner of the startup taint removes it, another party adds one, and somebody removes that of the site.
	_, err = c.Kubectl(t.Context(), "taint", "node", "n1", "readiness.k8s.io/gpu-", "example.com/a-",
		"example.com/other=x:NoExecute")
	must(t, err)
	before := otherTaint(t, c)
	m.run(0)
	wantTaints(t, c, "put back", "example.com/a=b:NoSchedule", "example.com/other=x:NoExecute")
	if r := prelet(t, n, 0, "verify"); strings.Contains(r.Out, "drift") {
		t.Errorf("verify: got %s, want no drift", r)
	}

	m.site(taintStage("example.com/c:NoExecute"), tainting)
	p := planOf(t, n)
	m.run(0)
	wantTaints(t, c, "another one", "example.com/c:NoExecute", "example.com/other=x:NoExecute")
	if after := otherTaint(t, c); !after.TimeAdded.Equal(before.TimeAdded) {
		t.Errorf("taint of another party: got %v, want %v", after, before)
	}
	node, err := c.Node(t.Context(), "n1")
	must(t, err)
	if got := node.Annotations["prelet.github.io/taints"]; got != "example.com/c:NoExecute" {
		t.Errorf("annotation: got %q, want that prelet owns example.com/c:NoExecute; plan %+v", got, p.Node.Taints)
	}

	// Half the changes of the Node between read and patch: another party changes it all the time.
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := c.patchNode(t, "n1", fmt.Sprintf(`{"metadata":{"annotations":{"busy":"%d"}}}`, i)); err != nil {
				done <- err
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	m.site(taintStage("example.com/d:NoSchedule"), tainting)
	m.run(0)
	close(stop)
	must(t, <-done)
	m.run(0)
	wantTaints(t, c, "on a busy Node", "example.com/d:NoSchedule", "example.com/other=x:NoExecute")

	m.site(tainting)
	m.run(0)
	wantTaints(t, c, "none", "example.com/other=x:NoExecute")

	// A taint of the site that moves to the base stays on the Node, also when the base drops it: prelet owns it no longer.
	m.site(taintStage("example.com/base=x:NoSchedule"), tainting)
	m.run(0)
	base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)
	setBase := func(more string) {
		t.Helper()
		must(t, c.SetConfigMap(t.Context(), "kube-system", "kubelet-config",
			map[string]string{"kubelet": base["kubelet"] + more}))
	}
	setBase("registerWithTaints: [{key: example.com/base, value: x, effect: NoSchedule}]\n")
	m.site(tainting)
	m.run(0)
	wantTaints(t, c, "moved to the base", "example.com/base=x:NoSchedule", "example.com/other=x:NoExecute")
	setBase("")
	m.run(0)
	wantTaints(t, c, "dropped by the base", "example.com/base=x:NoSchedule", "example.com/other=x:NoExecute")

	// Another party's value for the key and effect of a taint of the site is a conflict.
	m.site(taintStage("example.com/other=y:NoExecute"), tainting)
	m.run(0)
	wantTaints(t, c, "a conflict", "example.com/base=x:NoSchedule", "example.com/other=x:NoExecute")
	status := prelet(t, n, 0, "status")
	const command = "kubectl taint node n1 --overwrite example.com/other=y:NoExecute"
	if !strings.Contains(strings.Join(strings.Fields(status.Out), " "), command) {
		t.Errorf("a conflict: got status\n%s\nwant %q in it", status.Out, command)
	}
	m.site(tainting)
	m.run(0)
	wantTaints(t, c, "after a conflict", "example.com/base=x:NoSchedule", "example.com/other=x:NoExecute")
}

func otherTaint(t *testing.T, c *Cluster) corev1.Taint {
	t.Helper()
	n, err := c.Node(t.Context(), "n1")
	must(t, err)
	for _, x := range n.Spec.Taints {
		if x.Key == "example.com/other" {
			return x
		}
	}
	t.Fatalf("taints: got %v, want example.com/other", n.Spec.Taints)
	return corev1.Taint{}
}

// TestTaintCredentialFails changes the taints of the site with no credential, one without rights, one that has expired,
// a policy that refuses it, and without an API server. Each run succeeds, and reports the reason and the command.
func TestTaintCredentialFails(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, tainting)
	m.site(taintStage("example.com/a=b:NoSchedule"), tainting)

	wantStatus := func(what string, exit int, texts ...string) {
		t.Helper()
		r := prelet(t, m.Node, exit, "status")
		out := strings.Join(strings.Fields(r.Out), " ")
		for _, text := range append(texts, "node-drift") {
			if !strings.Contains(out, text) {
				t.Errorf("%s: got status\n%s\nwant %q in it", what, r.Out, text)
			}
		}
	}
	wantDrift := func(what string, texts ...string) {
		t.Helper()
		wantStatus(what, 0, texts...)
		wantTaints(t, c, what)
	}
	const command = "kubectl taint node n1 --overwrite example.com/a=b:NoSchedule"

	m.run(0)
	wantDrift("without the credential", "LoadCredential=node-taints", command)
	must(t, m.Credential("node-taints", "nonsense"))
	m.run(0)
	wantDrift("not a certificate", "is not a certificate and its key", command)
	m.tainter("nobody", time.Now().Add(-time.Hour))
	m.run(0)
	wantDrift("without rights", "does not let the client of credential node-taints do that", "nobody", command)
	allowTainter(t, c)
	m.tainter("tainter", time.Now().Add(-48*time.Hour))
	m.run(0)
	wantDrift("expired", "has expired at", "issue another one", command)

	allow := deny(t, c, "nodes", `!has(object.spec.taints) || !object.spec.taints.exists(t, t.key == "example.com/a")`,
		"example.com/a is not allowed here", func() error {
			patch := `{"spec":{"taints":[{"key":"example.com/a","effect":"NoSchedule"}]}}`
			return patchAs(t, c, "tainter", nil, patch)
		})
	m.tainter("tainter", time.Now().Add(-time.Hour))
	m.run(0)
	wantDrift("refused by admission", "example.com/a is not allowed here", command)
	allow()

	c.StopAPIServer()
	m.run(0)
	const degraded = 2 // the ConfigMap is that of the last good generation
	wantStatus("the server is away", degraded, "not patched", command)
	must(t, c.StartAPIServer(t.Context()))
	_, err := c.Ready(t.Context(), "n1")
	must(t, err)
	must(t, waitFor(t.Context(), time.Minute, "a later run puts the taint", func() string {
		m.run(0)
		if got := taintsOf(t, c, "n1"); !slices.Equal(got, []string{"example.com/a=b:NoSchedule"}) {
			return fmt.Sprintf("the taints are %q", got)
		}
		return ""
	}))
}
