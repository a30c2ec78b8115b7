package generation

import (
	"testing"
)

// TestReleaseAfterStuckRollback kills a rollback between its renames, lets its recovery need a person once, and judges
// the restored generation as unhealthy: the plan was not the cause, so it must not stay held.
func TestReleaseAfterStuckRollback(t *testing.T) {
	tried := 0
	for at := 1; ; at++ {
		b := newBox(t)
		s := b.open()
		b.apply(s, plan("p1", file("/etc/kubernetes/a", "1"), file("/etc/kubernetes/b", "1")))
		b.apply(s, plan("p2", file("/etc/kubernetes/a", "2"), file("/etc/kubernetes/b", "2")))
		_ = s.Close()

		b.o.Fault = (&killAt{at: at}).hook
		s = b.open()
		_, err := s.RollbackToJudge(2, 1, "unhealthy", true)
		_ = s.Close()
		if err == nil {
			break
		}

		b.o.Fault = nil
		s = b.open()
		j, err := s.Journal()
		if err != nil || j == nil || j.Phase != PhaseRollback || b.read("/etc/kubernetes/b") != "2" {
			_ = s.Close()
			continue
		}
		tried++
		b.write("/etc/kubernetes/b", "of another program", 0o644)
		if _, err := s.Recover(); !isStuck(err) {
			t.Errorf("operation %d: Recover with a foreign file: got %v, want it stuck", at, err)
		}
		if _, held := s.Held("p2"); !held {
			t.Errorf("operation %d: while recovery is stuck: got p2 free, want it held", at)
		}

		b.write("/etc/kubernetes/b", "2", 0o644)
		j, err = s.Recover()
		if err != nil || j == nil {
			t.Fatalf("operation %d: Recover: got %+v, %v; want a journal and no error", at, j, err)
		}
		if err := s.MarkUnhealthy(j.Gen, "the kubelet fails again"); err != nil {
			t.Errorf("operation %d: MarkUnhealthy: got %v, want no error", at, err)
		}
		if why, held := s.Held("p2"); held {
			t.Errorf("operation %d: after MarkUnhealthy: got p2 held (%s), want it free", at, why)
		}
		_ = s.Close()
	}
	if tried == 0 {
		t.Error("got no interrupted rollback, want at least one")
	}
}
