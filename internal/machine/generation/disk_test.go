package generation

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlushesSideBySide: on one CPU, too, a commit of four files waits for the disk four times, and each flush of a round
// begins before another one ends. The clock goes on only when all of them wait.
func TestFlushesSideBySide(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := newBox(t)
	synctest.Test(t, func(*testing.T) {
		var flying, most atomic.Int32
		b.o.fsync = func(int) error {
			if n := flying.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			flying.Add(-1)
			return nil
		}
		rounds := map[time.Time]bool{}
		b.o.Synced = func(_ string, began time.Time, _ time.Duration) { rounds[began] = true }
		s, err := Open(t.Context(), b.o)
		must(t, err)
		defer s.Close()
		clear(rounds) // of the new state folder
		b.apply(s, plan("1", file("/etc/a/1", "1"), file("/etc/b/2", "2"), file("/etc/c/3", "3"), file("/etc/d/4", "4")))
		if len(rounds) != 4 || most.Load() < 4 {
			t.Errorf("got %d rounds of at most %d flushes at a time, want 4 of 4 or more", len(rounds), most.Load())
		}
	})
}
