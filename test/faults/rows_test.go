package faults

import (
	"testing"
)

// row is one line of the matrix of disk faults: it is counted when its test ends well.
func row(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(t)
		if !t.Failed() {
			summary.add(func(s *tally) { s.rows++ })
		}
	})
}

// TestMended: what a run puts right by itself.
func TestMended(t *testing.T) {
	row(t, "37 temporaries of a killed run", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		start := b.look()
		at := b.callOf(t, "2", isCommit)
		b.restore(t, start)
		_, e, err := killedTraced(b.trace, at, b.runs("2")...)
		must(t, err)
		b.put("/var/lib/prelet/.kubelet.json.4711", "of another that was killed\n", 0o600)
		if !e.killed || b.look().litter() == nil {
			t.Fatalf("not killed while it staged: got %+v %v; want killed and litter other than nil",
				e, b.look().litter())
		}
		b.expect(0, b.line("recover"))
		b.unchanged(start)
		if b.read("/var/lib/prelet/.kubelet.json.4711") != "absent" {
			t.Error("a temporary of prelet's own folder stays")
		}
		b.heals()
	})
}
