package autoscalers

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/yaml"
)

// wanted is the program to test, which make e2e-autoscalers sets: without it these tests are skipped.
const wanted = "PRELET_AUTOSCALERS"

// pool is a part of a pool, in the types of those that read it.
type pool struct {
	Machines    []string                           `json:"machines"`
	Capacity    corev1.ResourceList                `json:"capacity"`
	Allocatable corev1.ResourceList                `json:"allocatable"`
	Overhead    cloudprovider.InstanceTypeOverhead `json:"overhead"`
	Labels      map[string]string                  `json:"labels"`
	Taints      []corev1.Taint                     `json:"taints"`
	Annotations map[string]string                  `json:"cluster_api_annotations"`
}

// plan returns the output of prelet plan over all recordings of the project that have one.
func plan(t *testing.T, output string) []byte {
	t.Helper()
	program := prelet(t)
	fleet := t.TempDir()
	files, err := filepath.Glob("../../testdata/stability/0.1.0/*.prelet*")
	if err != nil || len(files) < 10 {
		t.Fatalf("recordings: got %q, %v; want at least 10", files, err)
	}
	files = append(files, "../../testdata/recordings/v1/gpu.prelet")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(filepath.Base(file), "_", "-")
		if err := os.WriteFile(filepath.Join(fleet, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	cmd := exec.Command(program, "plan", "--from", fleet, "-o", output)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: got %v, want no error: %s", cmd, err, &errs)
	}

	return out
}

// readNodes returns the Nodes of -o nodes by name, which may have fields that these types lack.
func readNodes(t *testing.T) map[string]corev1.Node {
	t.Helper()
	nodes := map[string]corev1.Node{}
	for _, text := range bytes.Split(plan(t, "nodes"), []byte("---\n")) {
		var n corev1.Node
		if err := yaml.Unmarshal(text, &n); err != nil {
			t.Fatalf("%s: got %v, want a Node", text, err)
		}
		if n.Name != "" {
			nodes[n.Name] = n
		}
	}

	return nodes
}

// compare compares resources with those of a Node. Names that are missing are 0.
func compare(t *testing.T, what string, got, want corev1.ResourceList) {
	t.Helper()
	for _, list := range []corev1.ResourceList{got, want} {
		for name := range list {
			g, w := got[name], want[name]
			if g.Cmp(w) != 0 {
				t.Errorf("%s: got %s of %s, want %s", what, &g, name, &w)
			}
		}
	}
}

func TestPools(t *testing.T) {
	var document struct {
		Pools []pool `json:"pools"`
	}
	if err := json.Unmarshal(plan(t, "capacity"), &document); err != nil {
		t.Fatal(err)
	}
	nodes := readNodes(t)
	seen := 0
	for _, p := range document.Pools {
		for _, name := range p.Machines {
			seen++
			node := nodes[name]
			compare(t, name+": capacity", p.Capacity, node.Status.Capacity)
			compare(t, name+": allocatable", p.Allocatable, node.Status.Allocatable)
			instance := &cloudprovider.InstanceType{Name: name, Capacity: p.Capacity, Overhead: &p.Overhead}
			compare(t, name+": Karpenter's InstanceType", instance.Allocatable(), node.Status.Allocatable)
			checkClusterAPI(t, p, node)
		}
	}
	if seen < 10 || seen != len(nodes) {
		t.Errorf("got %d machines in pools, want the %d Nodes, 10 at least", seen, len(nodes))
	}
}

// checkClusterAPI reads the annotations of a MachineDeployment as cluster-autoscaler does, which takes their amounts
// for the allocatable ones. Source: k8s.io/autoscaler, cloudprovider/clusterapi.
func checkClusterAPI(t *testing.T, p pool, node corev1.Node) {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": clusterv1.GroupVersion.String(),
		"kind":       "MachineDeployment",
		"metadata":   map[string]any{"name": node.Name, "annotations": p.Annotations},
	})
	var md clusterv1.MachineDeployment
	if err == nil {
		err = yaml.UnmarshalStrict(text, &md)
	}
	if err != nil {
		t.Fatalf("%s: got %v, want a MachineDeployment", text, err)
	}

	value := func(key string) string { return md.Annotations["capacity.cluster-autoscaler.kubernetes.io/"+key] }
	got := corev1.ResourceList{}
	for key, name := range map[string]corev1.ResourceName{
		"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "ephemeral-disk": corev1.ResourceEphemeralStorage,
	} {
		if text := value(key); text != "" {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				t.Errorf("%s: %s: got %v, want a quantity", node.Name, key, err)
			}
			got[name] = q
		}
	}
	for key, name := range map[string]string{"maxPods": "pods", "gpu-count": value("gpu-type")} {
		if text := value(key); text != "" {
			n, err := strconv.ParseInt(text, 10, 0)
			if err != nil {
				t.Errorf("%s: %s: got %v, want an integer", node.Name, key, err)
			}
			got[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	want := node.Status.Allocatable.DeepCopy()
	for name := range want {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			delete(want, name) // no annotation has them
		}
	}
	compare(t, node.Name+": annotations", got, want)

	for _, label := range strings.Split(value("labels"), ",") {
		key, value, _ := strings.Cut(label, "=")
		if node.Labels[key] != value || key == corev1.LabelHostname {
			t.Errorf("%s: got the label %q, want those of the Node without its name: %v", node.Name, label, node.Labels)
		}
	}
	if n := strings.Count(value("labels"), ","); n+2 != len(node.Labels) {
		t.Errorf("%s: got %d labels, want all but the name: %v", node.Name, n+1, node.Labels)
	}
	if n := len(node.Spec.Taints); n != len(p.Taints) || n > 0 && n != strings.Count(value("taints"), ",")+1 {
		t.Errorf("%s: got the taints %q, want %v", node.Name, value("taints"), node.Spec.Taints)
	}
}
