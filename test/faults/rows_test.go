package faults

import (
	"os"
	"os/exec"
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

// fill takes all the space that there is.
func fill(t *testing.T, p string) {
	t.Helper()
	f, err := os.Create(p)
	must(t, err)
	defer f.Close()
	for n := 1 << 16; n > 0; {
		if _, err := f.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
}

func chattr(t *testing.T, flag, p string) {
	t.Helper()
	if out, err := exec.Command("chattr", flag, p).CombinedOutput(); err != nil {
		t.Fatalf("chattr: got %v %s; want no error", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-ia", p).Run() })
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
