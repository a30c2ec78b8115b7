package boot

import (
	"strings"
	"testing"
	"time"
)

// What prelet costs a boot, as systemd sees it, for the slowest of some.
func TestBootOverhead(t *testing.T) {
	m := joined(t)
	var worst time.Duration
	for range 5 {
		m.Off()
		m.Boot()
		m.well(1)
		end := m.monotonic("prelet", "ActiveEnter")
		took := end - m.monotonic("prelet", "InactiveExit")
		t.Logf("prelet.service %s, kubelet started %s after it", took, m.monotonic("kubelet", "ActiveEnter")-end)
		worst = max(worst, took)
	}
	if worst <= 0 || worst > 3*time.Second {
		t.Errorf("prelet held a boot with nothing to do for %s; want more than 0 and at most 3s", worst)
	}
}

// By hand, while prelet.service waits 6 s or more before its next try: the wait ends, and the answer is the node's.
func TestByHandWhileWaiting(t *testing.T) {
	m := newMachine(t)
	m.cluster.away()
	m.Start()
	m.Within(60*time.Second, "a long wait", func() string {
		if text := m.property("prelet", "StatusText"); !strings.Contains(text, "before try 4") {
			return "StatusText: " + text
		}
		return ""
	})
	m.cluster.back()
	began := time.Now()
	r := m.Try("prelet", "run")
	if took := time.Since(began); r.Exit != 0 || took > 5*time.Second {
		t.Errorf("prelet run, after %s: got %+v; want exit 0 and took at most 5s", took, r)
	}
	m.verdict("good")
	m.well(1)
}
