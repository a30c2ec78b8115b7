package boot

import (
	"strings"
	"testing"
	"time"
)

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
