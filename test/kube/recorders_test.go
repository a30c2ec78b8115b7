package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorderNodes are a worker with a taint, and nodes that the DaemonSet must not select.
const recorderNodes = `---
apiVersion: v1
kind: Node
metadata: {name: worker, labels: {kubernetes.io/os: linux}}
spec: {taints: [{key: example.com/gpu, effect: NoSchedule}]}
---
apiVersion: v1
kind: Node
metadata: {name: control, labels: {kubernetes.io/os: linux, node-role.kubernetes.io/control-plane: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: windows, labels: {kubernetes.io/os: windows}}
`

// TestRecorders types what the page of fleets does to record the workers of a cluster, up to where kubelets are needed.
// The API server accepts the manifests strictly, and the pods with the cluster's admission of them.
func TestRecorders(t *testing.T) {
	t.Parallel()
	c := start(t, ClusterOptions{
		Controllers: defaultControllers + ",daemonset,serviceaccount,root-ca-cert-publisher",
	})
	create(t, c, recorderNodes)

	page, err := os.ReadFile("../../docs/operators/fleet.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "\ncp -r packaging/fleet/record")
	commands, _, isFound := strings.Cut(rest, "kubectl -n prelet-fleet rollout status")
	if !isFound {
		t.Fatal("fleet.md: got no commands that apply packaging/fleet/record, want them")
	}
	dir := t.TempDir()
	must(t, os.CopyFS(dir+"/packaging/fleet/record", os.DirFS("../../packaging/fleet/record")))
	site, err := os.ReadFile("../../examples/minimal/site.hcl")
	must(t, err)
	must(t, os.WriteFile(dir+"/site.hcl", site, 0o644))
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", "cp -r packaging/fleet/record"+
		strings.ReplaceAll(commands, "IMAGE", "registry.test/recorder:2"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Path("super-admin.conf"),
		"PATH="+filepath.Dir(c.of("kubectl"))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "Warning") {
		t.Fatalf("commands of fleet.md: got %v, want no error and no warning\n%s", err, out)
	}

	// Without a scheduler that binds them, a pod names its node in its affinity.
	must(t, waitFor(t.Context(), time.Minute, "one pod, of the worker", func() string {
		list, err := c.Client.CoreV1().Pods("prelet-fleet").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		var got []string
		for _, pod := range list.Items {
			terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			got = append(got, terms[0].MatchFields[0].Values[0])
			for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				if container.Image != "registry.test/recorder:2" {
					t.Errorf("container %s: got image %s, want that of the page", container.Name, container.Image)
				}
			}
		}
		if !slices.Equal(got, []string{"worker"}) {
			return fmt.Sprintf("got pods for the nodes %q, want worker", got)
		}

		return ""
	}))

	// What the pod mounts is in its namespace.
	pods, err := c.Client.CoreV1().Pods("prelet-fleet").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, v := range pods.Items[0].Spec.Volumes {
		var names []string
		if v.ConfigMap != nil {
			names = append(names, v.ConfigMap.Name)
		}
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				names = append(names, source.ConfigMap.Name)
			}
		}
		for _, name := range names {
			must(t, waitFor(t.Context(), time.Minute, "ConfigMap "+name, func() string {
				if _, err := c.ConfigMap(t.Context(), "prelet-fleet", name); err != nil {
					return err.Error()
				}

				return ""
			}))
		}
	}
}
