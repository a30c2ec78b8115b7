package kube

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNothingIsLeft joins a node, stops it in good order, kills a second one with its whole run, and looks at the
// machine.
func TestNothingIsLeft(t *testing.T) {
	p := programs(t)
	before, pods := settings(t), podGroups(t)
	c, err := p.Start(t.Context(), ClusterOptions{})
	must(t, err)
	t.Cleanup(c.Stop)
	n, err := p.NewNode(t.Context(), NodeOptions{Name: "n1", Loopback: []string{"10.0.0.11"}})
	must(t, err)
	t.Cleanup(n.Stop)
	must(t, n.Reach(c, "10.0.0.11:6443"))
	must(t, n.StartFakeRuntime(t.Context(), "cgroupfs"))
	must(t, n.WantKubelet(t.Context()))
	must(t, n.Credential("bootstrap-token", c.Token))
	site := siteOf(t, c, "minimal")
	must(t, n.Site(site))
	prelet(t, n, 0, "run")
	if during := machine(t, p, os.Getpid()); len(during) < 10 {
		t.Errorf(
			"a running node shows nowhere, so this test would not see what it leaves: got %q; want during at least 10",
			during,
		)
	}
	n.Stop()
	c.Stop()
	gone := func(pid int) (left []string) {
		for range 1200 { // a minute
			if left = machine(t, p, pid); left == nil {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
		return left
	}
	if left := gone(os.Getpid()); left != nil {
		t.Errorf("left after a stop; want left nil:\n%s", strings.Join(left, "\n"))
	}

	// A run that is killed: what it started ends with it, and the next one removes its folders and groups.
	run := exec.Command(os.Args[0], "-test.run", "^TestVictim$")
	run.Env = append(os.Environ(), victim+"=1")
	must(t, run.Start())
	t.Cleanup(func() { _ = run.Process.Kill() })
	must(t, waitFor(t.Context(), time.Minute, "a node of the other run is up", func() string {
		if len(machine(t, p, run.Process.Pid)) < 5 {
			return "no node yet"
		}
		return ""
	}))
	must(t, run.Process.Kill())
	_ = run.Wait()
	must(t, p.Sweep())
	if left := gone(run.Process.Pid); left != nil {
		t.Errorf("left after a kill; want left nil:\n%s", strings.Join(left, "\n"))
	}
	if now := settings(t); !slices.Equal(now, before) {
		t.Errorf("kernel settings: got %q, were %q; want %q", now, before, before)
	}
	if now := podGroups(t); !slices.Equal(now, pods) {
		t.Errorf("a node saw the machine's own control groups: there is %q, there was %q; want %q", now, pods, pods)
	}
}

// victim is the variable that makes TestVictim run.
const victim = "PRELET_KUBE_VICTIM"

// TestVictim is the run that TestNothingIsLeft kills.
func TestVictim(t *testing.T) {
	if os.Getenv(victim) == "" {
		t.Skip("run by TestNothingIsLeft")
	}
	c := start(t, ClusterOptions{NoControllers: true})
	n := newNode(t, c, NodeOptions{})
	_, _ = n.Run(t.Context(), "sleep", "60")
}

// podGroups are what kubelets that see the machine's own control groups make at their roots.
func podGroups(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		out = append(out, found...)
	}
	return out
}

// settings are the kernel's, as far as a kubelet changes them, and the interfaces of this machine.
func settings(t *testing.T) (out []string) {
	t.Helper()
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		must(t, err)
		out = append(out, name+"="+strings.TrimSpace(string(text)))
	}
	return out
}

// machine is what a run has on this machine: mounts, control groups, processes, folders.
func machine(t *testing.T, p Programs, pid int) (out []string) {
	t.Helper()
	ours := func(s string) bool {
		return strings.Contains(s, fmt.Sprintf("node-%d-", pid)) || strings.Contains(s, fmt.Sprintf("cluster-%d-", pid))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	for line := range strings.Lines(string(mounts)) {
		if ours(line) || strings.Contains(line, "/var/lib/kubelet") {
			out = append(out, "mount "+line)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && ours(at) {
			out = append(out, "group "+at)
		}
		return nil
	})
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, at := range processes {
		line, _ := os.ReadFile(at + "/cmdline")
		groups, _ := os.ReadFile(at + "/cgroup") // a kubelet's command line does not name its node
		if ours(string(line)) || ours(string(groups)) {
			out = append(out, at+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	runs, _ := filepath.Glob(filepath.Join(p.Cache, "run", "*"))
	for _, dir := range runs {
		if ours(dir) {
			out = append(out, dir)
		}
	}
	return out
}
