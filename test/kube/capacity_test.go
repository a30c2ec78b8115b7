package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// schedulerFlags are those of the scheduler, whose configuration is the default.
const schedulerFlags = `--kubeconfig=$dir/super-admin.conf
--leader-elect=false
--secure-port=0`

// pool is a part of the fleet: copies of a recording, and the change of its site.
type pool struct {
	recording string
	nodes     int
	old, new  string // text of the site
}

var pools = map[string]pool{
	"vm": {
		recording: "policy-gdc-bare-vm",
		nodes:     3,
		old:       "{ policy = var.policy }",
		new:       "{\n  policy = var.policy\n  floor = { cpu = \"700m\" }\n}",
	},
	"gpu": {
		recording: "gpu-training-dgx-h100",
		nodes:     1,
		old:       `"nvidia.com/gpu=true:NoSchedule"`,
		new:       `"nvidia.com/gpu=true:NoSchedule", "example.com/maintenance:NoSchedule"`,
	},
}

// workload is a number of equal pods.
type workload struct {
	name     string
	pods     int64
	requests corev1.ResourceList
	// tolerated is the key of a taint.
	tolerated string
}

var workloads = []workload{
	{"web", 11, corev1.ResourceList{"cpu": resource.MustParse("600m"), "memory": resource.MustParse("100Mi")}, ""},
	{"training", 5, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}, "nvidia.com/gpu"},
}

// TestCapacity rehearses a change of two sites, of reserve and of a taint, over recordings: a real scheduler places
// pods on the Nodes that plan prints, without a kubelet. What stays Pending is what the plans as JSON have no room for.
func TestCapacity(t *testing.T) {
	t.Parallel()
	c := start(t, ClusterOptions{
		NoControllers: true,
		// Without the node controller nothing would remove its taint from new Nodes.
		APIServer: []string{"--disable-admission-plugins=TaintNodesByCondition"},
	})
	create(t, c, "{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: default, name: default}}")
	scheduler, err := c.begin(c.of("kube-scheduler"), schedulerFlags)
	must(t, err)
	t.Cleanup(func() { scheduler.stop(syscall.SIGTERM, 5*time.Second) })

	dir := t.TempDir()
	for name, p := range pools {
		p.write(t, filepath.Join(dir, name))
	}
	want := map[string]string{"before": "web 2 training 1", "after": "web 5 training 5"}
	for _, set := range []string{"before", "after"} {
		var planned []plannedNode
		var nodes strings.Builder
		for name := range pools {
			args := []string{
				"plan", "--from", filepath.Join(dir, name, "fleet"), "--config", filepath.Join(dir, name, set),
				"--kubelet-version", "1.37",
			}
			planned = append(planned, decodePlans(t, runOutput(t, c.Prelet, append(args, "-o", "json")...))...)
			nodes.Write(runOutput(t, c.Prelet, append(args, "-o", "nodes")...))
		}
		create(t, c, nodes.String())
		checkNodes(t, c, len(planned))

		var expected, pending []string
		for _, w := range workloads {
			room := w.pods
			for _, n := range planned {
				room -= n.countRoom(w)
			}
			expected = append(expected, fmt.Sprintf("%s %d", w.name, max(0, room)))
			pending = append(pending, fmt.Sprintf("%s %d", w.name, countPending(t, c, w)))
		}
		got := strings.Join(pending, " ")
		if got != strings.Join(expected, " ") || got != want[set] {
			t.Errorf("%s: got pending pods: %s; want %s, which is %q by the plans", set, got, want[set], expected)
		}
		_, err := c.Kubectl(t.Context(), "delete", "pods,nodes", "--all", "--force", "--grace-period=0")
		must(t, err)
	}
}

// write writes copies of the recording, its site, and the changed one.
func (p pool) write(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"fleet", "before", "after"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	packed := "../../testdata/stability/0.1.0/" + p.recording + ".prelet.gz"
	text, err := os.ReadFile(packed)
	must(t, err)
	for i := range p.nodes {
		file := fmt.Sprintf("%s-%d.prelet.gz", filepath.Base(dir), i+1)
		must(t, os.WriteFile(filepath.Join(dir, "fleet", file), text, 0o644))
	}

	plain, err := exec.Command("gzip", "-dc", packed).Output()
	must(t, err)
	var recording struct{ Site []struct{ Name, Text string } }
	must(t, json.Unmarshal(plain, &recording))
	isChanged := false
	for _, f := range recording.Site {
		if filepath.Ext(f.Name) != ".hcl" {
			continue
		}
		changed := strings.Replace(f.Text, p.old, p.new, 1)
		isChanged = isChanged || changed != f.Text
		must(t, os.WriteFile(filepath.Join(dir, "before", filepath.Base(f.Name)), []byte(f.Text), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "after", filepath.Base(f.Name)), []byte(changed), 0o644))
	}
	if !isChanged {
		t.Fatalf("%s: the site does not contain %s", p.recording, p.old)
	}
}

// runOutput returns the standard output of a program that must succeed.
func runOutput(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var errors bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, &errors)
	}

	return out
}

// plannedNode is what a plan as JSON has of the room on a node.
type plannedNode struct {
	Node struct {
		Taints   []struct{ Key, Effect string }
		Reserved struct {
			Allocatable map[corev1.ResourceName]resource.Quantity
			MaxPods     int64 `json:"max_pods"`
		}
	}
	Source string
}

func decodePlans(t *testing.T, text []byte) (plans []plannedNode) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var p plannedNode
		must(t, d.Decode(&p))
		plans = append(plans, p)
	}

	return plans
}

// countRoom returns how many pods of a workload fit on an empty node. The plan has no devices: a DGX H100 has 8 GPUs.
func (n plannedNode) countRoom(w workload) int64 {
	for _, taint := range n.Node.Taints {
		if taint.Key != w.tolerated {
			return 0
		}
	}
	left := n.Node.Reserved.Allocatable
	if strings.Contains(n.Source, "gpu-") {
		left["nvidia.com/gpu"] = resource.MustParse("8")
	}

	room := n.Node.Reserved.MaxPods
	for name, amount := range w.requests {
		q := left[name]
		room = min(room, q.MilliValue()/amount.MilliValue())
	}

	return room
}

// checkNodes compares what the API server has kept of the Nodes with what a scheduler needs.
func checkNodes(t *testing.T, c *Cluster, count int) {
	t.Helper()
	list, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != count {
		t.Errorf("got %d nodes, want %d", len(list.Items), count)
	}
	for _, n := range list.Items {
		s := n.Status
		if s.Allocatable.Pods().IsZero() || len(s.DeclaredFeatures) == 0 || s.NodeInfo.KubeletVersion == "" {
			t.Errorf("%s: got status %v; want allocatable, declared features and a version", n.Name, s)
		}
	}
}

// countPending creates the pods of a workload, and returns how many of them the scheduler could not place.
func countPending(t *testing.T, c *Cluster, w workload) (pending int) {
	t.Helper()
	var pods strings.Builder
	requests, err := json.Marshal(w.requests)
	must(t, err)
	tolerations := "[]" // an empty key tolerates everything
	if w.tolerated != "" {
		tolerations = "[{key: " + w.tolerated + ", operator: Exists}]"
	}
	for i := range w.pods {
		fmt.Fprintf(&pods, podManifest, w.name, i, tolerations, requests)
	}
	create(t, c, pods.String())
	must(t, waitFor(t.Context(), time.Minute, "the scheduler has seen all pods", func() string {
		list, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + w.name})
		must(t, err)
		pending = 0
		unseen := 0
		for _, pod := range list.Items {
			switch {
			case pod.Spec.NodeName != "":
			case len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable:
				pending++
			default:
				unseen++
			}
		}
		if unseen > 0 {
			return fmt.Sprintf("%d of %d pods of %s were not seen", unseen, w.pods, w.name)
		}

		return ""
	}))

	return pending
}

// podManifest is a pod of a workload, of its name, a number, tolerations and requests.
const podManifest = `---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: %[1]s-%[2]d, labels: {app: %[1]s}}
spec:
  automountServiceAccountToken: false
  tolerations: %[3]s
  containers:
  - {name: main, image: "registry.example/main:1", resources: {requests: %[4]s, limits: %[4]s}}
`
