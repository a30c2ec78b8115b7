package kube

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// oldKubelet stands for one before 1.16, which takes any label of kubernetes.io with a warning: it says that it is
// one, its command line is whole, and it lets the real one run without the label that this would end on.
const oldKubelet = `#!/bin/sh
[ "$1" != --version ] || { echo Kubernetes v1.15.12; exit 0; }
for word; do
  shift
  case $word in --node-labels=*) word=$(echo "$word" | sed 's,node-role.kubernetes.io/worker=old\,*,,');; esac
  set -- "$@" "$word"
done
/opt/real-kubelet "$@" &
trap "kill $!" TERM
wait $!
`

// TestNodeRestriction has a label that the kubelet accepts and that the real NodeRestriction plugin denies to nodes:
// prelet patches the others, and reports for that label what refused it, where it was planned, and who can set it.
func TestNodeRestriction(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	must(t, n.Write("/opt/old-kubelet", oldKubelet, 0o755))
	in(
		t,
		n,
		"sh",
		"-ec",
		"touch /opt/real-kubelet; mount --bind --make-private /usr/bin/kubelet /opt/real-kubelet; mount --bind "+
			"/opt/old-kubelet /usr/bin/kubelet",
	)
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	based := func(labels string) string {
		return strings.Replace(
			reconciling,
			"{}",
			"{\n  kubelet_flags {\n    base = \"KUBELET_EXTRA_ARGS=--node-labels="+labels+"\"\n  }\n}",
			1,
		)
	}
	m.site(based("example.com/a=1"))
	m.run(0)
	m.site(based("node-role.kubernetes.io/worker=old,example.com/a=2"))
	m.run(0)
	node, err := c.Node(t.Context(), "n1")
	must(t, err)
	if _, there := node.Labels["node-role.kubernetes.io/worker"]; there || node.Labels["example.com/a"] != "2" {
		t.Errorf("got %v; want not there and Labels[example.com/a] \"2\"", node.Labels)
	}
	// Once more with nothing to do.
	for _, out := range []string{prelet(t, n, 0, "status", "-o", "json").Out, m.run(0, "-o", "json").Out} {
		if !strings.Contains(
			out,
			`not patched: node-role.kubernetes.io/worker=old: the cluster does not let a node do that (nodes \"n1\" is forbidden: is not allowed to modify labels: node-role.kubernetes.io/worker) (/etc/prelet/site.hcl:`,
		) ||
			!strings.Contains(out, "; kubectl label node n1 --overwrite node-role.kubernetes.io/worker=old") {
			t.Errorf(
				"the refusal is not reported: got %s; want text with \"; kubectl label node n1 --overwrite "+
					"node-role.kubernetes.io/worker=old\"",
				out,
			)
		}
	}
	// Who may, does, and all is well.
	_, err = c.Kubectl(t.Context(), "label", "node", "n1", "--overwrite", "node-role.kubernetes.io/worker=old")
	must(t, err)
	if out := m.run(0, "-o", "json").Out; strings.Contains(out, "not patched") {
		t.Errorf("got %s; want no \"not patched\" in it", out)
	}
}

// TestNodeRestrictionIsForeseen asks the real NodeRestriction plugin, as the node, for labels of every kind, and
// prelet for a plan with each: what the one refuses the other has refused before, at the line of the site, and
// nothing else.
func TestNodeRestrictionIsForeseen(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	m := newMember(t, c, NodeOptions{}, quick)
	as := rest.CopyConfig(c.Config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:n1",
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	client, err := kubernetes.NewForConfig(as)
	must(t, err)
	patch := func(node, key string) error {
		_, err := client.CoreV1().
			Nodes().
			Patch(t.Context(), node, types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, key)), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	keys := map[string]bool{ // and whether a node may set it
		"plain":                                    true,
		"example.com/a":                            true,
		"notkubernetes.io/a":                       true,
		"kubernetes.io.example.com/a":              true,
		"kubelet.kubernetes.io/a":                  true,
		"a.kubelet.kubernetes.io/b":                true,
		"node.kubernetes.io/a":                     true,
		"feature.node.kubernetes.io/a":             true,
		"node.kubernetes.io/instance-type":         true,
		"topology.kubernetes.io/zone":              true,
		"failure-domain.beta.kubernetes.io/region": true,
		"kubernetes.io/a":                          false,
		"k8s.io/a":                                 false,
		"a.k8s.io/b":                               false,
		"a.kubernetes.io/b":                        false,
		"topology.kubernetes.io/rack":              false,
		"node-role.kubernetes.io/worker":           false,
		"node-restriction.kubernetes.io/a":         false,
		"a.node-restriction.kubernetes.io/b":       false,
		"anode.kubernetes.io/a":                    false,
		"node.k8s.io/a":                            false,
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		err := patch("n1", key)
		if keys[key] != (err == nil) ||
			err != nil &&
				(!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is not allowed to modify "+
					"labels: "+key)) {
			t.Errorf("the plugin says of %s: %v", key, err)
		}
		m.site("stage \"label\" \"x\" {\n  labels = { "+strconv.Quote(key)+" = \"x\" }\n}\n", reconciling)
		site, err := m.Read("/etc/prelet/site.hcl")
		must(t, err)
		before, _, _ := strings.Cut(site, "labels = ")
		at := fmt.Sprintf("/etc/prelet/site.hcl:%d:", 1+strings.Count(before, "\n"))
		r, err := m.Prelet(t.Context(), "plan")
		must(t, err)
		said := strings.Join(strings.Fields(r.Err), " ")
		if keys[key] && (r.Exit != 0 || strings.Contains(said, "label-forbidden")) ||
			!keys[key] &&
				(r.Exit != 10 || !strings.Contains(said, "The kubelet may not set label "+key+" [label-forbidden] "+at)) {
			t.Errorf("prelet says of %s: %s", key, r)
		}
	}
	// Nor may it touch another node, whatever the label.
	_, err = c.Client.CoreV1().
		Nodes().
		Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{})
	must(t, err)
	if err := patch("n2", "example.com/a"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), `node "n1" is not allowed to modify node "n2"`) {
		t.Errorf(
			"the plugin says of another node: got %v; want text with `node \"n1\" is not allowed to modify "+
				"node \"n2\"`",
			err,
		)
	}
}
