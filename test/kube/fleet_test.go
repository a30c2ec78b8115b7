package kube

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFleetJob creates the Indexed Job of the page on fleets. The API server and the job controller are real: they make
// the pods, with their numbers. No pod has a container: the test runs each pod's command, with its environment, on this
// machine, and reports it as done. Then the Job is complete, and the merged parts are the report of one run.
func TestFleetJob(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Controllers: defaultControllers + ",job"})
	work := fleetFolder(t)

	_, err := c.Client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
	}, metav1.CreateOptions{})
	must(t, err)
	manifest := filepath.Join(work, "job.yaml")
	must(t, os.WriteFile(manifest, []byte(readJob(t)), 0o644))
	_, err = c.Kubectl(t.Context(), "apply", "-f", manifest)
	must(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := map[string]bool{}
	for {
		job, err := c.Client.BatchV1().Jobs("default").Get(ctx, "prelet-fleet", metav1.GetOptions{})
		must(t, err)
		if job.Status.Succeeded == *job.Spec.Completions {
			break
		}

		pods, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		must(t, err)
		for _, pod := range pods.Items {
			if done[pod.Name] {
				continue
			}
			done[pod.Name] = true
			runPod(ctx, t, c, work, &pod)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the Job: got %d succeeded of %d pods after a minute, want %d",
				job.Status.Succeeded, len(done), *job.Spec.Completions)
		case <-time.After(100 * time.Millisecond):
		}
	}

	parts, err := filepath.Glob(filepath.Join(work, "out", "*.json"))
	must(t, err)
	for i, part := range parts {
		parts[i] = "out/" + filepath.Base(part)
	}
	merged := runPrelet(ctx, t, c, work, append([]string{"fleet", "merge", "--names"}, parts...)...)
	whole := runPrelet(ctx, t, c, work, "plan", "--from", "fleet", "--config", "site", "--names")
	if len(parts) != 4 || merged != whole || !strings.Contains(whole, "recordings: ") {
		t.Errorf("merge of %q: got\n%s\nwant 4 parts and\n%s", parts, merged, whole)
	}
}

// readJob returns the manifest on the page.
func readJob(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/fleet.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	manifest, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("docs/how-to/fleet.md: got no manifest, want one")
	}
	return manifest
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

// runPod runs the command of a pod in place of a kubelet, with /work at another path, and reports how it ended.
func runPod(ctx context.Context, t *testing.T, c *Cluster, work string, pod *corev1.Pod) {
	t.Helper()
	container := pod.Spec.Containers[0]
	replace := []string{"/work", work}
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = readField(t, pod, e.ValueFrom.FieldRef.FieldPath)
		}
		replace = append(replace, "$("+e.Name+")", value)
	}
	words := append([]string{}, container.Command...)
	for _, arg := range container.Args {
		words = append(words, strings.NewReplacer(replace...).Replace(arg))
	}

	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(c.Prelet)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pod %s, %q: got %v, want no error\n%s", pod.Name, words, err, out)
	}

	pod.Status.Phase = corev1.PodSucceeded
	_, err = c.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	must(t, err)
}

// readField returns a label or an annotation of a pod, as the downward API does: metadata.labels['KEY'].
func readField(t *testing.T, pod *corev1.Pod, path string) string {
	t.Helper()
	field, key, _ := strings.Cut(strings.TrimSuffix(path, "']"), "['")
	values := map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations}
	value, ok := values[field][key]
	if !ok {
		t.Fatalf("pod %s: got no field %s, want one", pod.Name, path)
	}
	return value
}

// runPrelet returns the output of a command, whatever its exit status.
func runPrelet(ctx context.Context, t *testing.T, c *Cluster, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, c.Prelet, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		t.Fatalf("prelet %q: got %v, want it to run", args, err)
	}
	return string(out)
}
