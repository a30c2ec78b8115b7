package boot

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// TestWatchdog runs on synctest's clock: a sleep costs no time.
func TestWatchdog(t *testing.T) { synctest.Test(t, testWatchdog) }

func testWatchdog(t *testing.T) {
	w := evalLimits{time: time.Minute, heap: 64 << 20, look: time.Millisecond}
	watch := func(f func()) *hcl.Diagnostic {
		_, d := runBounded(w, func() struct{} { f(); return struct{}{} })
		return d
	}
	if d := watch(func() { time.Sleep(5 * time.Millisecond) }); d != nil {
		t.Errorf("what ends is given up: %s", d)
	}
	if d := watch(func() { panic("x") }); d == nil || !strings.Contains(d.Detail, "fault of prelet: x") {
		t.Errorf("a panic gives %v", d)
	}

	stop := make(chan struct{})
	defer close(stop)
	w.time = 20 * time.Millisecond
	if d := watch(func() { <-stop }); d == nil || !strings.Contains(d.Summary, "20ms") {
		t.Errorf("what never ends gives %v", d)
	}

	w.time = time.Minute
	ended := make(chan struct{})
	d := watch(func() {
		defer close(ended)
		var all [][]byte
		for range 400 {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				all = append(all, make([]byte, 1<<20))
			}
		}
		_ = all[0][0]
	})
	select {
	case <-ended:
		t.Error("what grows is not given up before it ends")
	default:
	}
	if d == nil || !strings.Contains(d.Summary, "64 MiB of memory") {
		t.Errorf("what grows gives %v", d)
	}
}
