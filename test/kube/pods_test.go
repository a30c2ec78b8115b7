package kube

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCgroupDriver runs a real kubelet over a real containerd that has another cgroup driver and, before 2.0, does not
// report it: the kubelet is healthy and no pod starts. The plan reports this, with facts and without, for certain
// while containerd runs, and as far as its configuration shows while it does not.
func TestCgroupDriver(t *testing.T) {
	t.Parallel()
	p := programs(t)
	if !p.HasContainerd() {
		t.Skip("no containerd: build.sh takes it from Debian")
	}
	n, err := p.NewNode(t.Context(), NodeOptions{Name: "n1"})
	must(t, err)
	t.Cleanup(n.Stop)
	must(t, n.StartContainerd(t.Context(), "systemd"))
	must(t, n.Write("/run/pause.tar", image(t, PauseImage, []string{"/none"}), 0o644))
	in(t, n, "ctr", "-n", "k8s.io", "images", "import", "/run/pause.tar")
	must(t, n.Write(caseBase, baseline, 0o644))

	c := refusal{Config: map[string]any{}}
	const says = "the runtime's cgroup driver is systemd, the kubelet's is cgroupfs: the kubelet runs, and no " +
		"pod starts"
	wantMessage := func(when, severity, says string, said []string) {
		t.Helper()
		i := slices.IndexFunc(said, func(s string) bool { return strings.Contains(s, "cgroup driver") })
		if says == "" && i >= 0 ||
			says != "" && (i < 0 || !strings.HasPrefix(said[i], "kubelet-machine "+severity+" "+says)) {
			t.Errorf("%s: prelet does not say %q as a %s, but %q", when, says, severity, said)
		}
	}
	blind := func() []string {
		t.Helper()
		site, err := n.Read("/etc/prelet/site.hcl")
		must(t, err)
		must(t, n.Site(map[string]string{"site.hcl": strings.Replace(site, `stage "detect-hw" "node" {}`, "", 1)}))
		return c.planMessages(t, n)
	}
	said := judged(t, n, c)
	wantMessage("it runs", "warning", says+" (set by ", said)
	const ends = "does not implement RuntimeConfig: kubelets up to 1.37"
	if !strings.Contains(strings.Join(said, "\n"), ends) {
		t.Errorf("it runs: got %q, want a warning with %q", said, ends)
	}
	r, err := n.Prelet(t.Context(), "doctor", "-o", "json") // it ends as other checks of this bare node want
	must(t, err)
	if !strings.Contains(r.Out, ends) {
		t.Errorf("doctor: got %s, want a warning with %q", r, ends)
	}
	wantMessage("it runs, and nothing asks for facts", "warning", says+" (set by ", blind())
	pod(t, n, c, "expected cgroupsPath to be of format")

	c.Config = map[string]any{"containerRuntimeEndpoint": "unix:///run/another.sock"}
	wantMessage("the kubelet uses another runtime", "", "", judged(t, n, c))
	c.Config = map[string]any{}
	must(t, n.StopContainerd(t.Context()))
	wantMessage("it does not run", "note", says+", unless the runtime reports its driver", judged(t, n, c))
	wantMessage("it does not run, and nothing asks for facts", "note", says+", unless the runtime reports its driver", blind())
}

// TestRuntimeTells has a runtime that reports its driver, which a kubelet from 1.31 on uses, whatever its own
// configuration contains; and a runtime that reports none, whose driver is unknown.
func TestRuntimeTells(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"systemd", "none"} {
		t.Run(driver, func(t *testing.T) {
			n, err := programs(t).NewNode(t.Context(), NodeOptions{Name: "n1"})
			must(t, err)
			t.Cleanup(n.Stop)
			must(t, n.StartFakeRuntime(t.Context(), driver))
			must(t, n.Write(caseBase, baseline, 0o644))
			// Its configuration, which is not read, contains another driver.
			must(
				t,
				n.Write(
					"/etc/containerd/config.toml",
					fmt.Sprintf(containerdConfig, "containerd", PauseImage, driver == "none"),
					0o644,
				),
			)
			for _, s := range judged(t, n, refusal{}) {
				if strings.Contains(s, "cgroup driver") {
					t.Errorf("got %s; want no \"cgroup driver\" in it", s)
				}
			}
			r, err := n.Prelet(t.Context(), "doctor")
			must(t, err)
			if want := map[string]string{"systemd": " answers, cgroup driver systemd ok machine", "none": " answers ok machine"}[driver]; !strings.Contains(
				strings.Join(strings.Fields(r.Out), " "),
				want,
			) {
				t.Errorf("doctor does not say %q: %s", want, r)
			}
		})
	}
}

// TestPodsCannotStart has a static pod on a node that joins. A failure of that pod alone causes no rollback; a plan
// that brings the kubelet to a runtime with another cgroup driver, with which no pod starts, is rolled back; and if
// that change came without a plan, verify reports it while it continues.
func TestPodsCannotStart(t *testing.T) {
	t.Parallel()
	p := programs(t)
	if !p.HasContainerd() {
		t.Skip("no containerd: build.sh takes it from Debian")
	}
	c := start(t, Options{})
	n := nodeWith(t, c, Containerd, NodeOptions{}, "10.0.0.11:6443")
	journal(t, n)
	must(t, n.StartOtherContainerd(t.Context(), "systemd"))
	must(t, n.Write("/run/pause.tar", image(t, PauseImage, []string{"/none"}), 0o644))
	for _, at := range []string{socket, OtherSocket} {
		in(t, n, "ctr", "-a", at, "-n", "k8s.io", "images", "import", "/run/pause.tar")
	}
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	must(t, n.Write("/etc/kubernetes/manifests/one.yaml", staticPod, 0o644))
	// The kubelet tries the pod a moment after it is well. Where the verdict is about that, it has that time many
	// times over.
	const soon, late = "1s", "12s"
	patched := func(settle, line string) string {
		return `stage "write" "kubelet" {
  kubelet_config {
    patch = {
      staticPodPath = "/etc/kubernetes/manifests"
      ` + line + `
    }
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "` + settle + `"
    timeout = "90s"
  }
}
`
	}
	failing := func(words string) {
		t.Helper()
		must(t, waitFor(t.Context(), time.Minute, "the kubelet says "+words, func() string {
			if log := n.KubeletLog(); !strings.Contains(log, words) {
				return "it says " + last(log, 2000)
			}
			return ""
		}))
	}
	const runc = "expected cgroupsPath to be of format"

	m.site(patched(soon, ""))
	m.run(0)
	failing("RunPodSandbox from runtime service failed")
	if j := verify(
		t,
		n,
		0,
	); !slices.ContainsFunc(j.Checks, func(c check) bool { return c.Name == "pods" && c.State == "ok" }) ||
		strings.Contains(n.KubeletLog(), runc) {
		t.Errorf("a pod whose program is none: got %+v; want no %q in it", j, runc)
	}

	other := "containerRuntimeEndpoint = \"unix://" + OtherSocket + "\""
	w := why{
		id:   "driver-runc",
		item: "config/containerRuntimeEndpoint",
		at:   `"unix://` + OtherSocket,
		says: []string{
			"the container runtime's cgroup driver is systemd, and the kubelet's is cgroupfs: no pod starts",
		},
	}
	m.site(patched(late, other))
	r := toldWhy(t, m, w)
	if !strings.Contains(r.Out, "pods: the kubelet is well, and can start no pod") ||
		!strings.Contains(n.KubeletLog(), runc) {
		t.Errorf("got %s; want text with \"pods: the kubelet is well, and can start no pod\" and text with %q", r, runc)
	}
	if text, err := n.Read("/var/lib/kubelet/config.yaml"); err != nil || strings.Contains(text, OtherSocket) {
		t.Errorf("it was not undone: %v\n%s", err, text)
	}
	if j := verify(t, n, 0); len(j.Checks) == 0 || j.Cause != nil {
		t.Errorf("after going back: got %+v; want some Checks and Cause nil", j)
	}

	// The runtime has another driver from now on, as by an update of its package, and the kubelet is as it was.
	must(t, n.StopContainerd(t.Context()))
	must(t, n.StartContainerd(t.Context(), "systemd"))
	must(t, waitFor(t.Context(), time.Minute, "verify reports it", func() string {
		r, err := n.Prelet(t.Context(), "verify", "-o", "json")
		var j verdict
		if err != nil || r.Exit != 50 || json.Unmarshal([]byte(r.Out), &j) != nil || j.Cause == nil {
			return fmt.Sprint(r, err)
		}
		if state, _ := j.state("pods"); state != "failed" || j.Cause.ID != "driver-runc" || j.Cause.At == "" {
			t.Errorf("got %s; want state \"failed\", Cause.ID \"driver-runc\" and non-empty Cause.At", r)
		}
		return ""
	}))

	// A plan that is unrelated to the failure stays, and the node is not reported as healthy.
	m.site("stage \"label\" \"x\" {\n  labels = { \"example.com/a\" = \"b\" }\n}\n", patched(late, ""))
	if r := m.run(50); !strings.Contains(r.Err, "the generation before has the same") {
		t.Errorf("got %s; want text with \"the generation before has the same\"", r)
	}
	if flags, err := n.Read("/etc/default/kubelet"); err != nil || !strings.Contains(flags, "example.com/a=b") {
		t.Errorf("got %v; want no error and text with \"example.com/a=b\":\n%s", err, flags)
	}
}

// TestPodPidsLimit sets a limit that no kernel takes: the kubelet logs it with each pod, and runs them without one.
func TestPodPidsLimit(t *testing.T) {
	t.Parallel()
	n, err := programs(t).NewNode(t.Context(), NodeOptions{Name: "n1"})
	must(t, err)
	t.Cleanup(n.Stop)
	must(t, n.StartFakeRuntime(t.Context(), "cgroupfs"))
	pod(t, n, refusal{Config: map[string]any{"podPidsLimit": 1<<22 + 1}}, "pids.max: invalid argument")
}

const staticPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {hostNetwork: true, containers: " +
	"[{name: one, image: " + PauseImage + ", imagePullPolicy: Never}]}\n"

// pod runs the kubelet with one pod until it says something, and wants it to be well then.
func pod(t *testing.T, n *Node, c refusal, says string) {
	t.Helper()
	c.Config["staticPodPath"] = "/etc/prelet-case/pods"
	must(t, n.Write("/etc/prelet-case/pods/one.yaml", staticPod, 0o644))
	writeCase(t, n, c)
	stop, err := n.Background(
		"sh",
		"-c",
		"exec /usr/bin/kubelet --config=/etc/prelet-case/config.yaml --root-dir=/var/lib/kubelet-case "+
			"--hostname-override=n1 >/run/case.log 2>&1",
	)
	must(t, err)
	t.Cleanup(stop)
	must(t, waitFor(t.Context(), time.Minute, "the kubelet says "+says, func() string {
		log, err := n.Read("/run/case.log")
		if err != nil || !strings.Contains(log, says) {
			return "it says " + last(log, 2000)
		}
		return ""
	}))
	in(t, n, "pidof", "kubelet")
}

// image returns an archive, as docker save makes it, of an image with these files, as pairs of path and content. The
// sandbox of an image without its program never starts.
func image(t *testing.T, name string, entrypoint []string, files ...[2]string) string {
	t.Helper()
	archive := func(files ...[2]string) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}))
			_, err := w.Write([]byte(f[1]))
			must(t, err)
		}
		must(t, w.Close())
		return b.String()
	}
	object := func(v any) string {
		b, err := json.Marshal(v)
		must(t, err)
		return string(b)
	}
	layer := archive(files...)
	return archive(
		[2]string{"layer.tar", layer},
		[2]string{
			"config.json",
			object(map[string]any{
				"architecture": runtime.GOARCH,
				"os":           "linux",
				"config":       map[string]any{"Entrypoint": entrypoint},
				"rootfs": map[string]any{
					"type":     "layers",
					"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(layer)))},
				},
			}),
		},
		[2]string{
			"manifest.json",
			object(
				[]map[string]any{
					{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}},
				},
			),
		},
	)
}
