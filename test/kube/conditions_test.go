package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const gpuReady = "example.com/GPUReady"

// conditioned has a condition with a check of a file of the machine. Its kubelet updates its own status each second.
const conditioned = `stage "write" "kubelet" {
  kubelet_config { patch = { nodeStatusUpdateFrequency = "1s", nodeStatusReportFrequency = "1s" } }
}
stage "restart" "kubelet" {
  condition "example.com/GPUReady" {
    check {
      condition     = trimspace(file("/etc/gpus")) == "8"
      error_message = "Only ${trimspace(file("/etc/gpus"))} of 8 GPUs"
    }
  }
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`

// conditionOf returns the condition of a Node; one without a type if it does not have it.
func conditionOf(t *testing.T, c *Cluster, name string) (out corev1.NodeCondition) {
	t.Helper()
	n, err := c.Node(t.Context(), name)
	must(t, err)
	for _, x := range n.Status.Conditions {
		if x.Type == gpuReady {
			out = x
		}
	}
	return out
}

func wantCondition(t *testing.T, c *Cluster, what string, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	t.Helper()
	got := conditionOf(t, c, "n1")
	if got.Status != status || got.Reason != reason {
		t.Errorf("%s: got condition %s %s (%s: %s), want %s (%s)", what, gpuReady, got.Status, got.Reason, got.Message,
			status, reason)
	}
	return got
}

// newConditioned is a node that has joined with a condition.
func newConditioned(t *testing.T, c *Cluster, gpus string) member {
	t.Helper()
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	must(t, n.Write("/etc/gpus", gpus+"\n", 0o644))
	m.site(conditioned)
	m.run(0)
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)
	return m
}

// reboot stops the kubelet and empties /run/prelet, and starts the kubelet, which waits for the gate.
func (m member) reboot() {
	m.t.Helper()
	must(m.t, m.StopKubelet(m.t.Context()))
	must(m.t, os.RemoveAll(m.Root()+"/run/prelet"))
	must(m.t, m.WantKubelet(m.t.Context()))
}

// statuses collects each status of the condition that a Node has had, as STATUS(REASON), until the test ends.
type statuses struct {
	mu   sync.Mutex
	list []string
}

func (s *statuses) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func watchCondition(t *testing.T, c *Cluster) *statuses {
	t.Helper()
	w, err := c.Client.CoreV1().Nodes().Watch(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	must(t, err)
	t.Cleanup(w.Stop)
	s := &statuses{}
	go func() {
		for event := range w.ResultChan() {
			n, ok := event.Object.(*corev1.Node)
			if !ok {
				continue
			}
			for _, x := range n.Status.Conditions {
				text := fmt.Sprintf("%s(%s)", x.Status, x.Reason)
				s.mu.Lock()
				if x.Type == gpuReady && (len(s.list) == 0 || s.list[len(s.list)-1] != text) {
					s.list = append(s.list, text)
				}
				s.mu.Unlock()
			}
		}
	}()
	return s
}

// TestConditions joins with a condition. The kubelet keeps it over its own updates of the status and over its restart;
// each boot makes it False and then True; a check that does not hold makes it False; a stop too.
func TestConditions(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Audit: true})
	m := newConditioned(t, c, "8")
	joined := wantCondition(t, c, "after the join", corev1.ConditionTrue, "Verified")

	heartbeat := func() time.Time {
		n, err := c.Node(t.Context(), "n1")
		must(t, err)
		for _, x := range n.Status.Conditions {
			if x.Type == corev1.NodeReady {
				return x.LastHeartbeatTime.Time
			}
		}
		return time.Time{}
	}
	waitForUpdates := func(what string) {
		t.Helper()
		for range 3 {
			was := heartbeat()
			must(t, waitFor(t.Context(), 30*time.Second, what, func() string {
				if now := heartbeat(); !now.After(was) {
					return fmt.Sprint("the heartbeat is still ", now)
				}
				return ""
			}))
		}
	}
	waitForUpdates("the kubelet updates its status")
	must(t, m.Systemctl(t.Context(), "restart"))
	waitForUpdates("a restarted kubelet updates its status")
	if kept := wantCondition(t, c, "after updates of the kubelet", corev1.ConditionTrue, "Verified"); kept != joined {
		t.Errorf("after 6 updates of the kubelet: got %+v, want %+v", kept, joined)
	}

	all := watchCondition(t, c)
	m.reboot()
	m.run(0)
	wantCondition(t, c, "after a reboot", corev1.ConditionTrue, "Verified")
	must(t, waitFor(t.Context(), 10*time.Second, "the watch has seen the reboot", func() string {
		want := []string{"True(Verified)", "False(Booting)", "True(Verified)"}
		if got := all.seen(); !slices.Equal(got, want) {
			return fmt.Sprintf("got %q, want %q", got, want)
		}
		return ""
	}))

	m.run(0)
	must(t, m.Write("/etc/gpus", "7\n", 0o644))
	m.run(0)
	failed := wantCondition(t, c, "7 GPUs", corev1.ConditionFalse, "CheckFailed")
	if failed.Message != "Only 7 of 8 GPUs" || failed.LastTransitionTime == joined.LastTransitionTime {
		t.Errorf("7 GPUs: got %+v, want the message of the site and another time of transition", failed)
	}
	must(t, m.Write("/etc/gpus", "8\n", 0o644))
	m.run(0)
	wantCondition(t, c, "8 GPUs again", corev1.ConditionTrue, "Verified")
	prelet(t, m.Node, 0, "stopping")
	wantCondition(t, c, "at the stop", corev1.ConditionFalse, "Stopping")

	// One PATCH each: join, False and True of the reboot, 7 GPUs, 8 GPUs, stop. All by the node, and as prelet.
	sent, err := c.Requests("prelet")
	must(t, err)
	var patches []string
	for _, r := range sent {
		if r.Verb == "patch" {
			patches = append(patches, r.User.Username+" "+r.URI)
		}
	}
	want := slices.Repeat([]string{"system:node:n1 /api/v1/nodes/n1/status?fieldManager=prelet"}, 6)
	if !slices.Equal(patches, want) {
		t.Errorf("patches: got %q, want %q", patches, want)
	}

	// Without the block the Node has no such condition, and keeps those of the kubelet.
	m.site(strings.Replace(quick, `stage "write" "kubelet" {}`, strings.SplitAfter(conditioned, "\n}\n")[0], 1))
	m.run(0)
	if got := conditionOf(t, c, "n1"); got.Type != "" {
		t.Errorf("without the block: got condition %+v, want none", got)
	}
	_, err = c.Ready(t.Context(), "n1")
	must(t, err)
}

// deny makes a policy that refuses updates of a resource unless an expression is true. isDenied makes such an update.
// The returned function takes the policy away.
func deny(
	t *testing.T, c *Cluster, resource, expression, message string, isDenied func() error,
) (allow func()) {
	t.Helper()
	const name = "denied"
	forbidden := metav1.StatusReasonForbidden
	fail := admission.Fail
	policies := c.Client.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admission.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admission.MatchResources{
				ResourceRules: []admission.NamedRuleWithOperations{{
					RuleWithOperations: admission.RuleWithOperations{
						Operations: []admission.OperationType{admission.Update},
						Rule: admission.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource},
						},
					},
				}},
			},
			Validations: []admission.Validation{{Expression: expression, Message: message, Reason: &forbidden}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admission.ValidationAction{admission.Deny},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	must(t, waitFor(t.Context(), 30*time.Second, "the policy is in force", func() string {
		if err := isDenied(); err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Sprint("the answer is ", err)
		}
		return ""
	}))

	return func() {
		t.Helper()
		must(t, policies.ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}))
		must(t, waitFor(t.Context(), 30*time.Second, "the policy is gone", func() string {
			if err := isDenied(); err != nil {
				return err.Error()
			}
			return ""
		}))
	}
}

// patchAs patches a Node as a user, without effect.
func patchAs(t *testing.T, c *Cluster, user string, groups []string, patch string, subresources ...string) error {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, err = client.CoreV1().Nodes().Patch(t.Context(), "n1", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}

// refuseStatus keeps nodes from setting the condition, as a policy of the cluster may.
func refuseStatus(t *testing.T, c *Cluster) (allow func()) {
	t.Helper()
	conditions := func(object string) string {
		return object + `.status.conditions.filter(c, c.type == "` + gpuReady + `")`
	}
	return deny(t, c, "nodes/status", conditions("object")+" == "+conditions("oldObject"),
		gpuReady+" is not allowed here", func() error {
			patch := `{"status":{"conditions":[{"type":"` + gpuReady + `","status":"Unknown","reason":"Test"}]}}`
			return patchAs(t, c, "system:node:n1", []string{"system:nodes"}, patch, "status")
		})
}

// TestConditionsFail refuses the patch by admission and by authorization, takes the API server away during a boot, and
// lets the node's certificate expire. Each time the run succeeds, the status says why the Node lacks the condition, and
// the next contact patches it.
func TestConditionsFail(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newConditioned(t, c, "8")

	wantNote := func(what string, texts ...string) {
		t.Helper()
		r, err := m.Prelet(t.Context(), "status") // a check that does not hold makes the node degraded
		must(t, err)
		out := strings.Join(strings.Fields(r.Out), " ")
		for _, text := range append(texts, "node-condition") {
			if !strings.Contains(out, text) {
				t.Errorf("%s: got status\n%s\nwant %q in it", what, r.Out, text)
			}
		}
	}
	wantNoNote := func(what string) {
		t.Helper()
		if r, err := m.Prelet(t.Context(), "status"); err != nil || strings.Contains(r.Out, "tries again") {
			t.Errorf("%s: got status\n%s, %v\nwant no note", what, r.Out, err)
		}
	}

	allow := refuseStatus(t, c)
	prelet(t, m.Node, 0, "stopping")
	m.reboot()
	m.run(0)
	wantCondition(t, c, "refused by admission", corev1.ConditionTrue, "Verified") // as before
	wantNoNote("refused at the begin of a boot, and the Node has the condition")
	must(t, m.Write("/etc/gpus", "7\n", 0o644))
	m.run(0)
	wantNote("refused by admission", "the cluster does not let the node patch its status", "is not allowed here",
		"prelet-verify.service tries again")
	allow()
	prelet(t, m.Node, 0, "verify")
	wantCondition(t, c, "allowed again", corev1.ConditionFalse, "CheckFailed")
	wantNoNote("allowed again")

	// The server is away during a whole boot.
	must(t, m.Write("/etc/gpus", "8\n", 0o644))
	c.StopAPIServer()
	m.reboot()
	began := time.Now()
	m.run(0)
	t.Logf("a boot without the API server took %s", time.Since(began).Round(100*time.Millisecond))
	if s, err := m.Service(t.Context()); err != nil || s.Active != "active" {
		t.Errorf("without the API server: got kubelet %+v, %v; want it active", s, err)
	}
	if r, err := m.Prelet(t.Context(), "status"); err != nil || !strings.Contains(r.Out, "node-condition") {
		t.Errorf("without the API server: got %s, %v; want a note node-condition", r, err)
	}
	must(t, c.StartAPIServer(t.Context()))
	_, err := c.Ready(t.Context(), "n1")
	must(t, err)
	prelet(t, m.Node, 0, "verify")
	wantCondition(t, c, "the server is back", corev1.ConditionTrue, "Verified")

	// Another identity in place of the node's: one that has expired, and one without the rights of a node.
	const pki = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	own, err := m.Run(t.Context(), "cat", pki) // a link
	must(t, err)
	put := func(user pkix.Name, from time.Time) {
		t.Helper()
		must(t, os.Remove(m.Root()+pki))
		must(t, m.Write(pki, pemOf(t, authorityOf(t, c).issue(t, user, from)), 0o600))
	}
	nodeName := pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
	put(nodeName, time.Now().Add(-48*time.Hour))
	if r := prelet(t, m.Node, 0, "stopping"); !strings.Contains(r.Err, "expired") {
		t.Errorf("an expired certificate: got %s, want text with \"expired\"", r)
	}
	put(pkix.Name{CommonName: "system:node:n1"}, time.Now().Add(-time.Hour))
	if r := prelet(t, m.Node, 0, "stopping"); !strings.Contains(r.Err, "403") {
		t.Errorf("without the rights of a node: got %s, want text with \"403\"", r)
	}
	wantCondition(t, c, "with other identities", corev1.ConditionTrue, "Verified")
	must(t, m.Write(pki, own.Out, 0o600))
	prelet(t, m.Node, 0, "stopping")
	wantCondition(t, c, "with the node's own", corev1.ConditionFalse, "Stopping")
}

// pemOf returns a certificate and its key as one text.
func pemOf(t *testing.T, cert tls.Certificate) string {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}
