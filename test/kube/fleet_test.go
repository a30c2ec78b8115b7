package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleetDir is the folder of the node with the recordings, the site and the results.
const fleetDir = "/srv/fleet"

// TestFleetJob runs the Indexed Job of the page on fleets: the job controller makes the pods, with their numbers, and a
// node runs them. Instead of a scheduler the test assigns them. Instead of an image from a registry and a claim of a
// volume they have an imported image and a folder of the node, and the node's network. Then the Job is complete, and
// the merged parts are the report of one run.
func TestFleetJob(t *testing.T) {
	t.Parallel()
	if !programs(t).HasContainerd() {
		t.Skip("no containerd: build.sh takes it from Debian")
	}
	c := start(t, Options{Controllers: defaultControllers + ",job"})
	n := nodeWith(t, c, Containerd, NodeOptions{}, "10.0.0.11:6443")
	must(t, n.Write("/run/ci.tar", image(t, PauseImage, []string{"/bin/sleep", "1d"}, ciFiles(t, c)...), 0o644))
	in(t, n, "ctr", "-n", "k8s.io", "images", "import", "/run/ci.tar")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	m.site(quick)
	m.run(0)
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)

	work := filepath.Join(n.Root(), fleetDir)
	must(t, os.CopyFS(work, os.DirFS(fleetFolder(t))))
	createJob(t, c)
	runJob(t, c, n)

	parts, err := filepath.Glob(filepath.Join(work, "out", "*.json"))
	must(t, err)
	for i, part := range parts {
		parts[i] = "out/" + filepath.Base(part)
	}
	merged := runPrelet(t, n, append([]string{"fleet", "merge", "--names"}, parts...)...)
	whole := runPrelet(t, n, "plan", "--from", "fleet", "--config", "site", "--names")
	if len(parts) != 4 || merged != whole || !strings.Contains(whole, "recordings: ") {
		t.Errorf("merge of %q: got\n%s\nwant 4 parts and\n%s", parts, merged, whole)
	}
}

// ciFiles returns the files of an image for CI: prelet and a shell. It serves as the image of a sandbox too, which
// sleeps.
func ciFiles(t *testing.T, c *Cluster) (files [][2]string) {
	t.Helper()
	busybox := filepath.Join(c.Cache, "containerd", "usr/bin/busybox")
	for to, from := range map[string]string{
		"bin/sh":         busybox,
		"bin/sleep":      busybox,
		"usr/bin/prelet": c.Prelet,
	} {
		program, err := os.ReadFile(from)
		must(t, err)
		files = append(files, [2]string{to, string(program)})
	}
	return files
}

// createJob creates the Job of the page, and the service account of its pods.
func createJob(t *testing.T, c *Cluster) {
	t.Helper()
	_, err := c.Client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
	}, metav1.CreateOptions{})
	must(t, err)

	text := readJob(t)
	for _, replace := range [][2]string{
		{"registry.example/prelet-ci:1", PauseImage},
		{"persistentVolumeClaim:\n            claimName: prelet-fleet", "hostPath:\n            path: " + fleetDir},
		{"      restartPolicy: Never\n", "      restartPolicy: Never\n      hostNetwork: true\n"},
	} {
		if !strings.Contains(text, replace[0]) {
			t.Fatalf("the manifest of the page: want text with %q, got:\n%s", replace[0], text)
		}
		text = strings.Replace(text, replace[0], replace[1], 1)
	}
	manifest := filepath.Join(t.TempDir(), "job.yaml")
	must(t, os.WriteFile(manifest, []byte(text), 0o644))
	_, err = c.Kubectl(t.Context(), "apply", "-f", manifest)
	must(t, err)
}

// runJob assigns the pods of the Job to a node until all of them have succeeded.
func runJob(t *testing.T, c *Cluster, n *Node) {
	t.Helper()
	pods := c.Client.CoreV1().Pods("default")
	must(t, waitFor(t.Context(), 2*time.Minute, "the Job succeeds", func() string {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		var states []string
		for _, pod := range list.Items {
			states = append(states, fmt.Sprintf("%s: %s %v", pod.Name, pod.Status.Phase, pod.Status.ContainerStatuses))
			if pod.Spec.NodeName != "" {
				continue
			}
			must(t, pods.Bind(t.Context(), &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: n.Name},
			}, metav1.CreateOptions{}))
		}

		job, err := c.Client.BatchV1().Jobs("default").Get(t.Context(), "prelet-fleet", metav1.GetOptions{})
		must(t, err)
		if job.Status.Succeeded != *job.Spec.Completions {
			return fmt.Sprintf("%d succeeded\n%s", job.Status.Succeeded, strings.Join(states, "\n"))
		}
		return ""
	}))
}

// readJob returns the manifest to which the page on fleets refers.
func readJob(t *testing.T) string {
	t.Helper()
	manifest, err := os.ReadFile("../../packaging/fleet/job.yaml")
	must(t, err)
	return string(manifest)
}

// fleetFolder makes the Job's volume: recordings, a site, and a folder for the results.
func fleetFolder(t *testing.T) string {
	t.Helper()
	work := t.TempDir()
	recordings, err := filepath.Glob("../../testdata/recordings/v1/*.prelet")
	must(t, err)
	if len(recordings) == 0 {
		t.Fatal("testdata/recordings: got no recording, want some")
	}
	must(t, os.Mkdir(filepath.Join(work, "out"), 0o755))
	must(t, os.CopyFS(filepath.Join(work, "site"), os.DirFS("../../examples/minimal")))
	for _, from := range recordings {
		text, err := os.ReadFile(from)
		must(t, err)
		to := filepath.Join(work, "fleet", filepath.Base(from))
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must(t, os.WriteFile(to, text, 0o644))
	}
	return work
}

// runPrelet returns the output of a command in fleetDir, whatever its exit status.
func runPrelet(t *testing.T, n *Node, args ...string) string {
	t.Helper()
	r, err := n.Run(t.Context(), append([]string{"env", "--chdir=" + fleetDir, "prelet"}, args...)...)
	must(t, err)
	return r.Out
}
