package boot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/demo"
)

// joined is a machine that has booted once and is well.
func joined(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.Boot()
	m.verdict("good")
	return m
}

// edit changes the site by one replacement.
func (m *machine) edit(old, new string) {
	m.T.Helper()
	if !strings.Contains(m.site, old) {
		m.T.Fatalf("the site has no %q; want text with %q", old, old)
	}
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.site, old, new))
}

// well is how a machine looks on which there is nothing to do.
func (m *machine) well(generation int) {
	m.T.Helper()
	s := m.status()
	if s.Code != 0 || s.Exit != 0 || s.Generation != generation || !s.Gate.Open || s.Gate.Generation != generation {
		m.T.Errorf("status: %+v, want all well on generation %d", s, generation)
	}
	m.running()
}

// running: the kubelet is up, no verdict is awaited, and no unit failed but those.
func (m *machine) running(failed ...string) {
	m.T.Helper()
	m.Within(20*time.Second, "the kubelet runs", func() string {
		if state := m.property("kubelet", "ActiveState"); state != "active" {
			return "it is " + state
		}
		return ""
	})
	m.Within(
		20*time.Second,
		"the units that have failed",
		func() string { // prelet's status is there a moment before systemd knows how its unit ended
			var units []string
			for line := range strings.Lines(m.Do("systemctl", "--failed", "--no-legend", "--plain")) {
				units = append(units, strings.Fields(line)[0])
			}
			if !slices.Equal(units, failed) {
				return fmt.Sprintf("%q, want %q", units, failed)
			}
			return ""
		},
	)
	if m.Exists("/var/lib/prelet/journal.json") {
		m.T.Errorf("a verdict is still awaited: %s", m.read("/var/lib/prelet/journal.json"))
	}
}

// The first boot of a machine: prelet writes, the gate opens, the kubelet starts once and joins, prelet-verify finds it
// well, and what it joined with is gone.
func TestFirstBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Boot()
	s := m.verdict("good")
	if len(s.Degraded) != 0 {
		t.Errorf("degraded: got %+v; want no Degraded", s.Degraded)
	}
	m.well(1)
	if text := m.Try("prelet", "status"); text.Exit != 0 || !strings.Contains(text.Out, "1 (good)") {
		t.Errorf("prelet status: got %+v; want exit 0 and text with \"1 (good)\"", text)
	}
	starts := m.starts()
	if len(starts) != 1 || starts[0].Generation != "1" || starts[0].Labels["example.com/pool"] != "a" ||
		starts[0].Joined ||
		starts[0].Error != "" {
		t.Errorf(
			"starts of the kubelet: got %+v; want 1 start, starts[0].Generation \"1\", "+
				"starts[0].Labels[example.com/pool] \"a\", not starts[0].Joined and empty starts[0].Error",
			starts,
		)
	}
	if log := m.Do("journalctl", "-b", "--no-pager", "-u", "kubelet"); strings.Contains(log, "Failed") {
		t.Errorf("the kubelet was tried before its time; want no \"Failed\" in it:\n%s", log)
	}
	if m.Exists("/etc/kubernetes/bootstrap-kubelet.conf") || !m.Exists("/etc/kubernetes/kubelet.conf") {
		t.Error("bootstrap-kubelet.conf is still there, or kubelet.conf is not")
	}
	if node := string(m.cluster.Node(nodeName)); !strings.Contains(node, `"example.com/pool":"a"`) {
		t.Errorf("the Node: got %s; want text with `\"example.com/pool\":\"a\"`", node)
	}
	unit := m.Try("systemctl", "status", "--no-pager", "prelet").Out
	if !strings.Contains(unit, "active (exited)") || !strings.Contains(unit, `Status: "`) {
		t.Errorf("systemctl status prelet; want text with \"active (exited)\" and text with `Status: \"`:\n%s", unit)
	}
	if strings.Contains(m.Journal(), demo.TokenSecret) {
		t.Error("the token is in the journal")
	}
	t.Logf(
		"systemd-analyze:\n%s",
		m.Try(
			"sh",
			"-c",
			"systemd-analyze; systemd-analyze blame --no-pager | head -8; systemd-analyze critical-chain "+
				"--no-pager kubelet.service",
		).Out,
	)
}

// A boot without changes writes nothing that lasts, and its kubelet is judged.
func TestSecondBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	before := m.disk()
	asked := len(m.cluster.Requests())
	m.Boot()
	m.well(1)
	if s := m.status(); s.Verdict != "" || s.State != "ok" || s.Code != 0 {
		t.Errorf("status: got %+v; want empty Verdict, State \"ok\" and 0", s)
	}
	if r := m.Try("prelet", "status", "--wait"); r.Exit != 0 || strings.Contains(r.Out, "not judged") {
		t.Errorf("prelet status --wait: got %+v; want 0 after a verdict", r)
	}
	for _, d := range differs(before, m.disk()) {
		t.Errorf("written: %s", d)
	}
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts in two boots; want 2", n)
	}
	prelet := 0
	for _, r := range m.cluster.Requests()[asked:] {
		if strings.Contains(r.Path, "configmaps") {
			prelet++
		}
	}
	if prelet > 2 {
		t.Errorf("got %d requests; want at most 2", prelet)
	}
	t.Logf("systemd-analyze:\n%s", m.Try("sh", "-c", "systemd-analyze; systemd-analyze blame --no-pager | head -8").Out)
}

// A changed site by hand at run time: one restart, one verdict, and the boot after it has nothing to do.
func TestChangeByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(`"example.com/pool" = "a"`, `"example.com/pool" = "b"`)
	r := m.Try("prelet", "run")
	if r.Exit != 0 || !strings.Contains(r.Out, "Generation 2 is in place, and the kubelet is healthy on it") {
		t.Fatalf(
			"prelet run: got %+v; want exit 0 and text with \"Generation 2 is in place, and the kubelet is "+
				"healthy on it\"",
			r,
		)
	}
	m.well(2)
	starts := m.starts()
	if len(starts) != 2 || starts[1].Generation != "2" || starts[1].Labels["example.com/pool"] != "b" {
		t.Errorf(
			"starts: got %+v; want 2 starts, starts[1].Generation \"2\" and starts[1].Labels[example.com/pool] \"b\"",
			starts,
		)
	}
	if again := m.Try("prelet", "run"); again.Exit != 0 || !strings.Contains(again.Out, "No changes") {
		t.Errorf("once more: got %+v; want exit 0 and text with \"No changes\"", again)
	}
	if v := m.Try("prelet", "verify"); v.Exit != 0 {
		t.Errorf("prelet verify: got %+v; want exit 0", v)
	}
	m.Off()
	before := m.disk()
	m.Boot()
	m.well(2)
	if d := differs(before, m.disk()); len(d) > 0 || len(m.starts()) != 3 {
		t.Errorf("the boot after it: got %q, %d starts; want none and 3 starts", d, len(m.starts()))
	}
}

// Journal entries can be found by what they are about, without reading their text.
func TestJournalFields(t *testing.T) {
	t.Parallel()
	m := joined(t)
	for _, match := range [][]string{{"PRELET_STAGE=commit", "PRELET_GENERATION=1"}, {"PRELET_STAGE=gate"}, {"PRELET_STAGE=report", "PRELET_GENERATION=1"}, {"PRELET_STAGE=fetch-ca.cluster"}, {"PRELET_STAGE=verify", "PRELET_GENERATION=1"}} {
		out := m.Do(append([]string{"journalctl", "-b", "--no-pager", "-o", "json"}, match...)...)
		found := false
		for line := range strings.Lines(out) {
			var e map[string]any
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%q: got %v; want no error", line, err)
			}
			id, _ := e["MESSAGE_ID"].(string)
			found = found || len(id) == 32
		}
		if !found {
			t.Errorf("no entry with a MESSAGE_ID for %q; want one:\n%s", match, out)
		}
	}
}
