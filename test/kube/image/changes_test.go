package image

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/test/kube"
)

// roundSite adds to the image's site what a variable decides in each file of the kubelet, and in one more.
const roundSite = `variable "round" {
  type    = string
  default = "1"
  validation {
    condition     = can(tonumber(var.round))
    error_message = "round must be a number."
  }
}
override {
  stage "write" "kubelet" {
    kubelet_config { patch = { cgroupDriver = "systemd", maxPods = 100 + tonumber(var.round) } }
  }
}
stage "label" "round" { labels = { "node.example.com/round" = var.round } }
stage "write" "round" {
  file "round" {
    path    = "/etc/round.conf"
    content = "round=${var.round}\n"
  }
}
`

// addRounds adds roundSite to a machine, and gives its units the variable.
func (m *machine) addRounds() {
	m.t.Helper()
	m.put("/etc/prelet/50-round.hcl", roundSite)
	for _, unit := range []string{"prelet", "prelet-apply"} {
		m.put("/etc/systemd/system/"+unit+".service.d/20-round.conf", "[Service]\nLoadCredential=prelet.var.round\n")
	}
	m.run("sync")
}

// roundFlags returns QEMU's flags for a value of the variable.
func roundFlags(round any) []string {
	return []string{"-smbios", fmt.Sprintf("type=11,value=io.systemd.credential:prelet.var.round=%v", round)}
}

// round returns the value in the machine's files and in the flags of its running kubelet. All must be of one.
func (m *machine) round() int {
	m.t.Helper()
	out := m.run("sh", "-ec", `sed -n 's/^maxPods: /config /p' /var/lib/kubelet/config.yaml
		sed -n 's/^round=/file /p' /etc/round.conf
		sed -n 's/.*example.com\/round=\([0-9]*\).*/flags \1/p' /etc/default/kubelet
		tr '\0' '\n' <"/proc/$(systemctl show --value -p MainPID kubelet)/cmdline" |
			sed -n 's/.*example.com\/round=\([0-9]*\).*/kubelet \1/p'`)
	values := map[string]int{}
	for line := range strings.Lines(out) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(text)
		if err != nil {
			m.t.Fatalf("%s: got %q; want a number", name, text)
		}
		if name == "config" {
			n -= 100
		}
		values[name] = n
	}
	for _, name := range []string{"config", "file", "flags", "kubelet"} {
		if n, ok := values[name]; !ok || n != values["file"] {
			m.t.Errorf("round in the kubelet's configuration, a file, the flags and the kubelet: got %v; want one value", values)
			break
		}
	}

	return values["file"]
}

// TestChanges changes the site of a machine that has joined: well, with a mistake in its text, and so that no kubelet
// starts. Then an operator goes back to the first generation.
func TestChanges(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "CHANGE-1")
	const name = "change-1"
	args := slices.Concat(credentials(t, c), m.smbiosToken(c.Token))
	m.start(args...)
	node(t, c, m, name)
	m.healthy()

	m.addRounds()
	m.reboot()
	changed := m.healthy()
	if got := m.round(); got != 1 || changed.Generation != 2 {
		t.Errorf("after a change: got round %d, %+v; want 1, generation 2", got, changed)
	}
	node(t, c, m, name)

	m.put("/etc/prelet/60-mistake.hcl", "stage \"lable\" \"x\" {}\n")
	m.reboot()
	if s := m.settled(10); s.Generation != 2 {
		t.Errorf("with a mistake in the site: got %+v; want generation 2", s)
	}
	if got := m.round(); got != 1 {
		t.Errorf("with a mistake in the site: got round %d; want 1", got)
	}
	t.Logf("with a mistake in the site:\n%s", m.try("prelet", "status"))

	// systemd accepts it, and the kubelet ends at each start.
	m.put("/etc/prelet/60-mistake.hcl", `stage "write" "bad" {
  file "bad" {
    path    = "/etc/systemd/system/kubelet.service.d/90-bad.conf"
    content = "[Service]\nExecStartPre=/bin/false\n"
    notify  = [stage.restart.kubelet]
  }
}
`)
	m.reboot()
	s := m.settled(50)
	if got := m.round(); got != 1 {
		t.Errorf("after a rollback: got round %d; want 1", got)
	}
	if got := m.try("test", "-e", "/etc/systemd/system/kubelet.service.d/90-bad.conf"); got.exit == 0 {
		t.Errorf("after a rollback: the bad file is there; want it gone")
	}
	t.Logf("after a rollback, %+v:\n%s", s, m.try("prelet", "status"))
	m.keep("rollback")

	m.run("rm", "/etc/prelet/60-mistake.hcl")
	m.run("prelet", "rollback", "1")
	m.reboot()
	m.settled(0)
	if got := m.try("test", "-e", "/etc/round.conf"); got.exit == 0 {
		t.Errorf("after `prelet rollback 1` and a reboot: the file of generation 2 is there; want it gone")
	}
	node(t, c, m, name)
}

// TestSlow joins twice. At the second time the processor gives prelet so little that the run takes longer than the
// TimeoutStartSec= of its unit: it is one try.
func TestSlow(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "SLOW-1")
	const name = "slow-1"
	m.start(slices.Concat(credentials(t, c), m.smbiosToken(c.Token))...)
	node(t, c, m, name)
	m.healthy()

	spent, err := strconv.ParseInt(m.property("prelet", "CPUUsageNSec"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine a first run spends more than a second one. A run that was too short is made once more with less.
	quota := max(1, spent*100/180/1_000_000_000) // percent of a processor, for 3 minutes
	seconds := m.slowRun(c, name, quota)
	if seconds < 130 {
		m.settled(0)
		node(t, c, m, name)
		seconds = m.slowRun(c, name, max(1, quota*seconds/180))
	}
	if got := m.property("prelet", "NRestarts"); got != "0" || seconds < 130 {
		t.Errorf("a run of %d s: got %s further tries; want more than 130 s, and none", seconds, got)
	}
	m.settled(0)
	node(t, c, m, name)
}

// slowRun joins again with a percentage of a processor for prelet, and returns the seconds of its run.
func (m *machine) slowRun(c *kube.Cluster, name string, quota int64) int64 {
	m.t.Helper()
	m.t.Logf("prelet.service has CPUQuota=%d%%", quota)
	m.forget(c, name)
	m.run("systemctl", "stop", "prelet")
	m.run("systemctl", "set-property", "--runtime", "prelet.service", fmt.Sprintf("CPUQuota=%d%%", quota))
	m.run("systemctl", "start", "--no-block", "prelet", "kubelet")
	m.within(4*patience, "prelet has ended", func() string {
		if got := m.property("prelet", "ActiveState"); got != "active" {
			return got
		}
		return ""
	})
	m.t.Log(m.try("journalctl", "-b", "--no-pager", "-u", "prelet", "-n", "30", "-o", "short-monotonic"))

	var at [2]int64
	for i, property := range []string{"ExecMainStartTimestampMonotonic", "ExecMainExitTimestampMonotonic"} {
		n, err := strconv.ParseInt(m.property("prelet", property), 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		at[i] = n
	}

	return (at[1] - at[0]) / 1_000_000
}
