package boot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prelet/prelet/test/nspawn"
)

// TestOutOfMemory boots a node with a detector that takes all memory that it can get, until the kernel kills it. The
// boot goes on without it, and its unit does not fail of that. With version 2 of cgroups the unit's own MemoryMax= is
// what is exceeded; with version 1, of which the container's systemd has no memory controller, it is a limit of the
// whole machine.
func TestOutOfMemory(t *testing.T) {
	limit := limitMemory(t, 1<<30)
	m := newMachine(t)
	if limit == "" {
		m.put("/etc/systemd/system/prelet.service.d/90-memory.conf", "[Service]\nMemoryMax=300M\n")
	} else {
		m.Limits = []string{limit}
	}
	m.detector("hog")
	m.detector("good")
	m.put("/etc/prelet/site.hcl", m.site+"stage \"detect-hw\" \"node\" {}\ndetector \"good\" { required = true }\n"+
		"detector \"hog\" {\n  memory  = \"4Gi\"\n  timeout = \"60s\"\n}\n")
	m.Boot(landlock)

	s := m.verdict("good")
	if len(s.Degraded) != 1 || !strings.Contains(s.Degraded[0].Summary, `"hog"`) {
		t.Errorf("degraded: got %+v; want the detector hog alone", s.Degraded)
	}
	if !s.Gate.Open || len(m.starts()) != 1 {
		t.Errorf("got %d starts of the kubelet and the gate %+v; want one, and an open gate", len(m.starts()), s.Gate)
	}
	// The kernel chooses the detector, or the program that has started it.
	killed := regexp.MustCompile(`it ended during the call \(signal: killed|it or the detector was\s(?:.*\s)?killed, or ran out`)
	if journal := m.Journal(); !killed.MatchString(journal) {
		t.Errorf("the journal does not report that the detector was killed; want text that matches %q:\n%s", killed, journal)
	}
	if left := m.Try("pgrep", "-fa", "prelet-detect"); left.Exit == 0 {
		t.Errorf("still there: got %s; want exit other than 0", left.Out)
	}
	if other := m.killedForMemory(limit); other != "" {
		t.Error(other)
	}
	for _, unit := range []string{"prelet", "prelet-apply"} {
		for property, want := range map[string]string{"OOMPolicy": "continue", "TasksMax": "1200", "LimitCORE": "1"} {
			if got := m.property(unit, property); got != want {
				t.Errorf("%s: %s is %q, want %q", unit, property, got, want)
			}
		}
		if got := m.property(unit, "MemoryMax"); got == "infinity" || got == "" {
			t.Errorf("%s: MemoryMax is %q, want a limit", unit, got)
		}
	}
	if got := m.property("prelet", "Result"); got != "success" {
		t.Errorf("prelet.service: Result is %q, want success", got)
	}
}

// limitMemory makes a cgroup of version 1 with a limit, and returns its path; "" where the memory controller is one
// of version 2.
func limitMemory(t *testing.T, bytes int) string {
	t.Helper()
	_ = nspawn.Cache(t) // or skip
	const hierarchy = "/sys/fs/cgroup/memory"
	if _, err := os.Stat(hierarchy + "/cgroup.procs"); err != nil {
		return ""
	}
	dir := filepath.Join(hierarchy, fmt.Sprintf("prelet-memory-%d", os.Getpid()))
	must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { // after the machine is gone
		if out, err := exec.Command("find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").
			CombinedOutput(); err != nil {
			t.Errorf("removing %s: got %v: %s; want no error", dir, err, out)
		}
	})
	must(t, os.WriteFile(dir+"/memory.limit_in_bytes", fmt.Append(nil, bytes), 0o644))
	return dir
}

// killedForMemory checks that the kernel killed a process for lack of memory at all, and returns what is wrong if not.
func (m *machine) killedForMemory(limit string) string {
	m.T.Helper()
	if limit == "" {
		if !strings.Contains(m.Journal(), "killed by the OOM killer") {
			return "systemd reports nothing that was killed for lack of memory"
		}
		return ""
	}
	path := filepath.Join(limit, m.Name, "memory.oom_control")
	control, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(control), "oom_kill ") ||
		strings.Contains(string(control), "oom_kill 0") {
		return fmt.Sprintf("%s: got %q, %v; want a kill", path, control, err)
	}
	return ""
}
