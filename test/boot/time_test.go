package boot

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// TestBootOverhead compares the CPU that prelet takes at a boot with nothing to do, the least of five boots, with that of
// the boot at which the node has joined: half as much again would be a mistake.
func TestBootOverhead(t *testing.T) {
	m := joined(t)
	first := m.cpu("prelet")
	least := time.Hour
	for range 5 {
		m.Off()
		m.Boot()
		m.well(1)
		took := m.cpu("prelet")
		end := m.monotonic("prelet", "ActiveEnter")
		t.Logf("prelet.service took %s of CPU, and %s; the kubelet started %s after it",
			took, end-m.monotonic("prelet", "InactiveExit"), m.monotonic("kubelet", "ActiveEnter")-end)
		least = min(least, took)
	}
	if least <= 0 || least > first*3/2 {
		t.Errorf("CPU of a boot with nothing to do: got %s, want more than 0, and at most 1.5 times %s", least, first)
	}
}

// cpu returns the CPU that a unit has taken since it was started.
func (m *machine) cpu(unit string) time.Duration {
	m.T.Helper()
	var ns int64
	if _, err := fmt.Sscan(m.property(unit, "CPUUsageNSec"), &ns); err != nil {
		m.T.Fatal(err)
	}

	return time.Duration(ns)
}

// TestByHandWhileWaiting: by hand, while prelet.service waits before its next try, the wait ends, and the answer is the
// node's.
func TestByHandWhileWaiting(t *testing.T) {
	m := newMachine(t)
	m.cluster.away()
	m.Start()
	waits := regexp.MustCompile(`waiting (\S+) before try 5`)
	var wait time.Duration
	m.Within(120*time.Second, "a long wait", func() string {
		text := m.property("prelet", "StatusText")
		found := waits.FindStringSubmatch(text)
		if found == nil {
			return "StatusText: " + text
		}
		wait, _ = time.ParseDuration(found[1])
		return ""
	})
	m.cluster.back()
	began := time.Now()
	r := m.Try("prelet", "run")
	if took := time.Since(began); r.Exit != 0 || took >= wait {
		t.Errorf("prelet run, after %s: got %+v; want exit 0 before %s, the time that the unit would have waited", took, r, wait)
	}
	m.verdict("good")
	m.well(1)
}
