package report

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestNotReplacedByOlder begins a run while another process changes the status of the run before: the status is that of
// the new run afterwards. No time passes while either does anything, so the wait for the lock never times out.
func TestNotReplacedByOlder(t *testing.T) {
	synctest.Test(t, notReplacedByOlder)
}

func notReplacedByOlder(t *testing.T) {
	b := newBench(t)
	_, err := finish(b.reporter(t, nil), "", "generation 7 is in place")
	must(t, err)

	bootID := b.load(t).BootID
	began := make(chan error, 1)
	_, err = changeEnded(b.dir, bootID, func(s *Status) {
		s.Summary = "changed"
		go func() {
			_, err := New(ReporterConfig{Dir: b.dir, BootID: bootID, Now: time.Now})
			began <- err
		}()
		select {
		case err := <-began: // without a lock it does not wait
			began <- err
		case <-time.After(100 * time.Millisecond):
		}
	})
	must(t, err)
	must(t, <-began)
	if s := b.load(t); s.State != Running {
		t.Errorf("status: got state %s, %q, want that of the run that began", s.State, s.Summary)
	}
}
