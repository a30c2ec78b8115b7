package machine

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// extensions counts what a run asks of systemd.
type extensions struct {
	mu    sync.Mutex
	until time.Time // the end of the unit's start, as it was asked for last
	count int
}

func (e *extensions) Status(string) error { return nil }

func (e *extensions) Extend(d time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	e.until = time.Now().Add(d)

	return nil
}

func (e *extensions) read() (count int, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.count, e.until
}

// TestExtensionsEnd: a step that hangs is given its time, and no more: systemd ends the run after it.
func TestExtensionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := &extensions{}
		h := &Host{Notify: asked}
		began := time.Now()
		stop := h.ExtendTimeout(MaxLoading)
		time.Sleep(MaxLoading / 2)
		synctest.Wait()
		if _, until := asked.read(); !until.After(time.Now()) {
			t.Errorf("in the middle of its time: got an end at %s, want one to come", until)
		}

		time.Sleep(time.Hour)
		synctest.Wait()
		count, until := asked.read()
		if end := until.Sub(began); end < MaxLoading || end > MaxLoading+4*KeepAlive {
			t.Errorf("the end of a step that hangs: got %s after its begin, want %s or a little more", end, MaxLoading)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if after, _ := asked.read(); after != count {
			t.Errorf("extensions after that: got %d, want none", after-count)
		}
		stop()
	})
}

// TestExtensionsStop: after a step no more time is asked for.
func TestExtensionsStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := &extensions{}
		h := &Host{Notify: asked}
		stop := h.ExtendTimeout(MaxPlanning)
		time.Sleep(KeepAlive + time.Second)
		synctest.Wait()
		stop()
		count, _ := asked.read()
		time.Sleep(MaxPlanning)
		synctest.Wait()
		if after, _ := asked.read(); count != 2 || after != count {
			t.Errorf("extensions: got %d and %d after the step, want 2 and none", count, after-count)
		}
	})
}

// TestFitConsole holds how a line for the console looks: D-Bus refuses what is not UTF-8, and a terminal must not obey.
func TestFitConsole(t *testing.T) {
	const want = `100 % of "a" \x1b[2J \xff (prelet status)`
	if got := FitConsole("100 % of\n\"a\" \x1b[2J \xff"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := FitConsole(strings.Repeat("é\x1b", 100)); utf8.RuneCountInString(got) != consoleLimit {
		t.Errorf("got %d characters, want %d", utf8.RuneCountInString(got), consoleLimit)
	}
}
