package kube

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
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

// TestTwoClones starts two machines from the disk of a node that had joined: they end as two nodes, and the first is
// untouched.
func TestTwoClones(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	template := newMember(t, c, NodeOptions{Name: "template"}, quick)
	// An image is made of a node at rest.
	must(t, template.StopKubelet(t.Context()))
	before, err := c.Node(t.Context(), "template")
	must(t, err)
	for _, name := range []string{"clone-a", "clone-b"} {
		n := newNode(t, c, NodeOptions{Name: name, Clone: template.Node}, "10.0.0.11:6443")
		must(t, n.Credential("bootstrap-token", c.Token))
		r := prelet(t, n, 0, "run")
		if !strings.Contains(r.Err, "The identity on this disk belongs to node template") {
			t.Errorf("%s: got %s; want text with \"The identity on this disk belongs to node template\"", name, r)
		}
		_, err := c.Ready(t.Context(), name)
		must(t, err)
		pair, err := n.Run(t.Context(), "cat", "/var/lib/kubelet/pki/kubelet-client-current.pem") // a link in the node
		must(t, err)
		block, _ := pem.Decode([]byte(pair.Out))
		cert, err := x509.ParseCertificate(block.Bytes)
		must(t, err)
		if want := "system:node:" + name; cert.Subject.CommonName != want {
			t.Errorf("its certificate is of %s; want %s", cert.Subject, want)
		}
		if status := prelet(t, n, 0, "status"); !strings.Contains(
			status.Out,
			"identity: the identity of node template was on this disk",
		) {
			t.Errorf("got %s; want text with \"identity: the identity of node template was on this disk\"", status)
		}
		prelet(t, n, 0, "run") // and a second one finds nothing to do
		if files, err := os.ReadDir(n.Root() + "/var/lib/kubelet/pki"); err != nil || len(files) == 0 {
			t.Errorf("got %v, %v; want no error and some files", files, err)
		}
	}
	all, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(all.Items) != 3 {
		t.Errorf("%d nodes, want the template and two clones", len(all.Items))
	}
	if after, err := c.Node(t.Context(), "template"); err != nil || after.UID != before.UID {
		t.Errorf("the template's Node was touched: got %v; want no error and UID %v", err, before.UID)
	}
}

// TestCloneOfAnImageWithoutPrelet starts a machine from the disk of a node that joined, on which prelet never ran:
// the site names the new one.
func TestCloneOfAnImageWithoutPrelet(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	template := newMember(t, c, NodeOptions{Name: "template"}, quick)
	must(t, template.StopKubelet(t.Context()))
	n := newNode(t, c, NodeOptions{Name: "fresh", Clone: template.Node}, "10.0.0.11:6443")
	must(t, os.RemoveAll(n.Root()+"/var/lib/prelet"))
	must(t, n.Credential("bootstrap-token", c.Token))
	m := member{n, t, c, template.pin}
	m.site("node { name = \"fresh\" }", quick)
	if r := m.run(0); !strings.Contains(
		strings.Join(strings.Fields(r.Err), " "),
		"Its certificate belongs to node template, and this node is to be fresh",
	) {
		t.Errorf("got %s; want text with \"Its certificate belongs to node template, and this node is to be fresh\"", r)
	}
	_, err := c.Ready(t.Context(), "fresh")
	must(t, err)
}

const reconciling = `stage "write" "kubelet" {}
stage "restart" "kubelet" {
  reconcile_labels = true
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`

// TestReconcile patches a node's labels past the real NodeRestriction plugin, and a policy that refuses one of them.
func TestReconcile(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	refuse(t, c, metav1.StatusReasonForbidden, "example.com/locked")
	labels := func(pairs string) string { return "stage \"label\" \"x\" {\n  labels = {" + pairs + "}\n}\n" }
	m := newMember(
		t,
		c,
		NodeOptions{},
		labels(
			`"example.com/pool" = "one", "example.com/old" = "x", "example.com/taken" = "x", "topology.kubernetes.io/zone" = "a"`,
		),
		reconciling,
	)
	must(t, c.patchNode(t, "n1", `{"metadata":{"labels":{"example.com/taken":"somebody","example.com/foreign":"y"}}}`))

	m.site(
		labels(
			`"example.com/pool" = "two", "example.com/new" = "z", "example.com/locked" = "no", "feature.node.kubernetes.io/f" = "1", "topology.kubernetes.io/zone" = "b"`,
		),
		reconciling,
	)
	p := planOf(t, m.Node)
	for key, when := range map[string]string{"example.com/pool": "reconcile", "topology.kubernetes.io/zone": "restart"} {
		if p.Node.Labels[key].TakesEffect != when {
			t.Errorf("got %s takes effect at %s; want %s", key, p.Node.Labels[key].TakesEffect, when)
		}
	}
	m.run(0)
	node, err := c.Node(t.Context(), "n1")
	must(t, err)
	for key, want := range map[string]string{"example.com/pool": "two", "example.com/new": "z", "example.com/old": "", "example.com/taken": "somebody", "example.com/foreign": "y",
		"example.com/locked": "", "feature.node.kubernetes.io/f": "1", "topology.kubernetes.io/zone": "b"} {
		if node.Labels[key] != want {
			t.Errorf("%s is %q, want %q", key, node.Labels[key], want)
		}
	}
	status := prelet(t, m.Node, 0, "status", "-o", "json").Out
	if !strings.Contains(status, "is not allowed here") || !strings.Contains(status, "/etc/prelet/site.hcl:") ||
		!strings.Contains(status, "kubectl label node n1 --overwrite example.com/locked=no") {
		t.Errorf(
			"the refusal is not reported: got %s; want text with \"is not allowed here\", text with "+
				"\"/etc/prelet/site.hcl:\" and text with \"kubectl label node n1 --overwrite example.com/locked=no\"",
			status,
		)
	}

	// Somebody changes one: drift, and another run patches it; then there is nothing to do, and nothing is written.
	must(t, c.patchNode(t, "n1", `{"metadata":{"labels":{"example.com/pool":"three"}}}`))
	if r := prelet(t, m.Node, 0, "verify"); !strings.Contains(r.Out, `example.com/pool is "three" and not "two"`) {
		t.Errorf("got %s; want text with `example.com/pool is \"three\" and not \"two\"`", r)
	}
	before, err := m.disk()
	must(t, err)
	m.run(0)
	after, err := m.disk()
	must(t, err)
	if d := difference(before, after); len(d) > 0 {
		t.Errorf("written: got %v; want none", d)
	}
	if node, err = c.Node(t.Context(), "n1"); err != nil || node.Labels["example.com/pool"] != "two" {
		t.Errorf("got %v, %v; want no error and Labels[example.com/pool] \"two\"", node.Labels, err)
	}
}

// TestTaintDrift plans another taint for a node that has joined: it cannot change its own, and says who can.
func TestTaintDrift(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	taint := func(text string) string { return "stage \"taint\" \"x\" {\n  taints = [\"" + text + "\"]\n}\n" }
	m := newMember(t, c, NodeOptions{}, taint("example.com/a=b:NoSchedule"), quick)
	m.site(taint("example.com/c:NoExecute"), quick)
	m.run(0)
	r := prelet(t, m.Node, 0, "verify")
	want := "kubectl taint node n1 --overwrite example.com/c:NoExecute example.com/a=b:NoSchedule-"
	if !strings.Contains(r.Out, want) {
		t.Errorf("got %s; want text with %q", r, want)
	}
	words := strings.Fields(strings.TrimPrefix(want, "kubectl "))
	_, err := c.Kubectl(t.Context(), words...)
	must(t, err)
	if r := prelet(t, m.Node, 0, "verify"); !strings.Contains(r.Out, "taints     ok") {
		t.Errorf("after the command: got %s; want text with \"taints     ok\"", r)
	}
}

func (c *Cluster) patchNode(t *testing.T, name, patch string) error {
	_, err := c.Client.CoreV1().
		Nodes().
		Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// refuse keeps nodes from setting one label on themselves, as a site's own policy may.
func refuse(t *testing.T, c *Cluster, why metav1.StatusReason, label string) {
	t.Helper()
	refuseIn(t, c, why, "labels", label)
}

// refuseIn is refuse for a key of the labels or of the annotations.
func refuseIn(t *testing.T, c *Cluster, why metav1.StatusReason, field, label string) {
	t.Helper()
	name := "no-" + strings.ReplaceAll(label, "/", "-")
	policies := c.Client.AdmissionregistrationV1()
	fail := admission.Fail
	all := admission.Exact
	_, err := policies.ValidatingAdmissionPolicies().
		Create(t.Context(), &admission.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admission.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admission.MatchResources{
					MatchPolicy: &all,
					ResourceRules: []admission.NamedRuleWithOperations{
						{RuleWithOperations: admission.RuleWithOperations{
							Operations: []admission.OperationType{
								admission.Create,
								admission.Update,
							},
							Rule: admission.Rule{
								APIGroups:   []string{""},
								APIVersions: []string{"v1"},
								Resources:   []string{"nodes"},
							},
						}},
					},
				},
				Validations: []admission.Validation{
					{
						Expression: fmt.Sprintf(
							`!request.userInfo.username.startsWith("system:node:") || `+
								`!has(object.metadata.%[1]s) || !(%[2]q in object.metadata.%[1]s)`,
							field,
							label,
						),
						Message: label + " is not allowed here",
						Reason:  &why,
					},
				},
			}}, metav1.CreateOptions{})
	must(t, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().
		Create(t.Context(), &admission.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admission.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        name,
				ValidationActions: []admission.ValidationAction{admission.Deny},
			},
		}, metav1.CreateOptions{})
	must(t, err)
	// The API server knows of it a moment later.
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:probe",
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	probe, err := kubernetes.NewForConfig(config)
	must(t, err)
	must(t, waitFor(t.Context(), 30*time.Second, "the policy is in force", func() string {
		_, err := probe.CoreV1().
			Nodes().
			Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "probe", Labels: map[string]string{label: "x"}, Annotations: map[string]string{label: "x"},
			}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), label+" is not allowed here") {
			return fmt.Sprint("the answer is ", err)
		}
		return ""
	}))
}

// verdict is what `verify -o json` prints.
type verdict struct {
	Verdict string
	Why     string
	Checks  []check
	Cause   *struct{ ID, Sentence, Item, At string }
	Exit    int
}

type check struct{ Name, State, Message string }

func (j verdict) state(name string) (state, message string) {
	for _, c := range j.Checks {
		if c.Name == name {
			return c.State, c.Message
		}
	}
	return "", ""
}

func verify(t *testing.T, n *Node, want int) (j verdict) {
	t.Helper()
	r := prelet(t, n, want, "verify", "-o", "json")
	must(t, json.Unmarshal([]byte(r.Out), &j))
	return j
}

// TestConfigz asks the kubelet what it runs with, as the API server's own client; and finds a flag that wins over the
// file.
func TestConfigz(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	const asking = `stage "write" "kubelet" {
  kubelet_config { patch = { maxPods = 64, evictionHard = { "memory.available" = "200Mi" }, kubeReserved = { cpu = "100m", memory = "0.25Gi" }, syncFrequency = "90s" } }
}
stage "restart" "kubelet" {
  verify {
    settle             = "1s"
    timeout            = "40s"
    configz_credential = "kubelet-configz"
  }
}
`
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	crt, err := os.ReadFile(c.Path("pki/apiserver-kubelet-client.crt"))
	must(t, err)
	key, err := os.ReadFile(c.Path("pki/apiserver-kubelet-client.key"))
	must(t, err)
	must(t, n.Credential("kubelet-configz", string(crt)+string(key)))
	m.site(asking)
	r := prelet(t, n, 0, "run", "-o", "json")
	if !strings.Contains(r.Out, `{"name":"configz","state":"ok"}`) {
		t.Errorf("got %s; want text with `{\"name\":\"configz\",\"state\":\"ok\"}`", r)
	}
	_, err = c.Ready(t.Context(), "n1")
	must(t, err)
	must(t, n.Write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=--max-pods=32\n", 0o644))
	must(t, n.Systemctl(t.Context(), "restart"))
	must(t, waitFor(t.Context(), 20*time.Second, "the kubelet listens", func() string {
		if _, err := c.AskKubelet(t.Context(), n, "/healthz"); err != nil {
			return err.Error()
		}
		return ""
	}))
	if state, message := verify(t, n, 50).state("configz"); state != "failed" ||
		!strings.Contains(message, "maxPods is 32 and not 64") {
		t.Errorf("%s: got %s; want state \"failed\" and text with \"maxPods is 32 and not 64\"", state, message)
	}
	must(t, n.Credential("kubelet-configz", ""))
	if state, message := verify(t, n, 0).state("configz"); state != "unknown" ||
		!strings.Contains(message, "LoadCredential=kubelet-configz") {
		t.Errorf(
			"without the credential: got %s: %s; want state \"unknown\" and text with "+
				"\"LoadCredential=kubelet-configz\"",
			state,
			message,
		)
	}
}

// TestTwoMachinesOfOneName starts a machine under the name of a Node that is Ready: it does not join, except for a
// takeover, and then verify reports both.
func TestTwoMachinesOfOneName(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	first := newMember(t, c, NodeOptions{}, quick)
	before, err := c.Node(t.Context(), "n1")
	must(t, err)

	n := newNode(t, c, NodeOptions{Name: "n2"}, "10.0.0.11:6443")
	second := member{n, t, c, first.pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	second.site("node {\n  name = \"n1\"\n}\n", quick)
	if r := second.run(22); !strings.Contains(r.Err, "Another machine is node n1 [node-name-taken]") {
		t.Errorf(
			"under the name of another machine: got %s; want text with \"Another machine is node n1 "+
				"[node-name-taken]\"",
			r,
		)
	}
	if _, err := n.Read("/etc/kubernetes/bootstrap-kubelet.conf"); err == nil {
		t.Error("it got what it needs to join")
	}
	if after, err := c.Node(t.Context(), "n1"); err != nil || after.UID != before.UID ||
		after.Status.NodeInfo.MachineID != before.Status.NodeInfo.MachineID {
		t.Errorf("the Node was touched: got %v; want no error, UID %v and Status.NodeInfo.MachineID %v",
			err, before.UID, before.Status.NodeInfo.MachineID)
	}
	first.run(0) // the machine whose name it is asks nothing

	second.run(0, "--takeover")
	must(t, waitFor(t.Context(), 2*time.Minute, "verify reports two machines", func() string {
		r, err := first.Prelet(t.Context(), "verify")
		if err != nil || r.Exit != 50 || !strings.Contains(r.Out+r.Err, "is another machine") {
			return fmt.Sprint(r, err)
		}
		return ""
	}))

	// Each kubelet overwrites the Node in turns, and a look of verify takes as long as that.
	for range 3 {
		prelet(t, first.Node, 50, "verify")
	}
	first.run(0)
	if r := prelet(t, first.Node, 2, "status"); !strings.Contains(r.Out, "node-is-another-machine") {
		t.Errorf("status of two machines: got %s; want text with \"node-is-another-machine\"", r)
	}

	// At a boot of the first machine the other one has the Node for itself.
	must(t, first.StopKubelet(t.Context()))
	must(t, os.RemoveAll(first.Root()+"/run/prelet"))
	must(t, waitFor(t.Context(), time.Minute, "the Node is the second machine's", func() string {
		node, err := c.Node(t.Context(), "n1")
		if err != nil || node.Status.NodeInfo.MachineID == before.Status.NodeInfo.MachineID {
			return fmt.Sprint(err, "it is the first machine's")
		}
		return ""
	}))
	must(t, first.WantKubelet(t.Context()))
	first.run(0)
	must(t, waitFor(t.Context(), time.Minute, "the status of the machine that came back", func() string {
		r, err := first.Prelet(t.Context(), "status")
		if err != nil || r.Exit != 2 || !strings.Contains(r.Out, "node-is-another-machine") {
			return fmt.Sprint(r, err) // 1 until systemd starts the kubelet again
		}
		return ""
	}))
}

// TestTwoMachinesOfOneNameAtOnce joins two machines under one name, with a label of its own each, before either has made
// the Node: none of them blames its labels.
func TestTwoMachinesOfOneNameAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	pin, err := c.Pin()
	must(t, err)

	var machines []member
	for i := range 2 {
		m := member{newNode(t, c, NodeOptions{Name: fmt.Sprintf("n%d", i+1)}, "10.0.0.11:6443"), t, c, pin}
		must(t, m.Credential("bootstrap-token", c.Token))
		label := fmt.Sprintf("stage \"label\" \"x\" {\n  labels = { \"example.com/machine\" = \"%d\" }\n}\n", i)
		m.site("node {\n  name = \"n1\"\n}\n", label, quick)
		machines = append(machines, m)
	}

	var joined sync.WaitGroup
	results := make([]Result, len(machines))
	for i, m := range machines {
		joined.Go(func() {
			r, err := m.Prelet(t.Context(), "run")
			if err != nil {
				t.Error(err)
			}
			results[i] = r
		})
	}
	joined.Wait()

	losers := 0
	for i, r := range results {
		said := strings.Join(strings.Fields(r.Out+r.Err), " ")
		if strings.Contains(said, "with other labels") || r.Exit != 0 && r.Exit != 50 {
			t.Errorf("machine %d: got %s; want 0 or 50, and no blame of its labels", i, r)
		}
		if r.Exit == 50 && strings.Contains(said, "is another machine") {
			losers++
		}
	}
	if losers == 0 {
		t.Errorf("two machines joined at once: got %v; want 50 and \"is another machine\" of at least one", results)
	}
}
