package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// callOf traces a run of version v and finds one of its calls.
func (b *box) callOf(t *testing.T, v string, is func(call) bool) call {
	t.Helper()
	calls, e, err := traced(b.trace, b.runs(v)...)
	must(t, err)
	if e.exit != 0 {
		t.Fatalf("exit %d: got %s; want 0", e.exit, e.output)
	}
	for _, c := range calls {
		if !c.failed && is(c) {
			return c
		}
	}
	t.Fatal("no such call")
	return call{}
}

// restore brings the root back to an earlier look by putting generation 1 in place of everything: a new root.
func (b *box) restore(t *testing.T, start tree) {
	t.Helper()
	must(t, exec.Command("sh", "-c", "rm -rf "+b.root+"/*").Run())
	b.put("/etc/site.d/a.conf", "as before prelet\n", 0o644)
	b.put("/etc/site.d/foreign.conf", "none of ours\n", 0o640)
	b.expect(0, b.runs("1"))
	for p := range start {
		delete(start, p)
	}
	for p, n := range b.look() {
		start[p] = n
	}
}

// held runs version 2 and stops it for a while as it enters a call; edit happens meanwhile.
func (b *box) held(t *testing.T, at call, edit func()) ended {
	t.Helper()
	trace := filepath.Join(b.dir, "held")
	done := make(chan ended, 1)
	args := append(
		[]string{
			"-f",
			"--seccomp-bpf", // other calls are not slowed down
			"-qq",
			"-e",
			"signal=none", // a line about one would end that of the held call
			"-o",
			trace,
			"-e",
			"trace=" + at.name,
			"-e",
			fmt.Sprintf("inject=%s:delay_enter=3000000:when=%d", at.name, at.nth),
		},
		b.runs("2")...)
	go func() {
		e, err := execute("strace", args...)
		if err != nil {
			e.exit, e.output = -1, err.Error()
		}
		done <- e
	}()
	waitUntilHeld(t, trace)
	edit()
	select {
	case e := <-done:
		return e
	case <-time.After(10 * time.Minute):
		t.Fatal("it does not end")
		return ended{}
	}
}

// waitUntilHeld waits until the last call of a trace has begun and has not ended for a while: that is the one that waits.
func waitUntilHeld(t *testing.T, trace string) {
	t.Helper()
	const while = 300 * time.Millisecond
	before := ""
	for until := time.Now().Add(10 * time.Minute); time.Now().Before(until); time.Sleep(while) {
		text, _ := os.ReadFile(trace)
		isOpen := len(text) > 0 && text[len(text)-1] != '\n'
		if isOpen && string(text) == before {
			return
		}
		before = string(text)
	}
	t.Fatal("no call is held")
}

// isCommit says whether a call makes a durable file the journal.
func isCommit(c call) bool {
	return strings.HasPrefix(c.name, "rename") && strings.HasSuffix(c.paths()[0], "/journal.json.staged")
}

// TestForeignEdit: somebody changes a target while prelet is at work.
func TestForeignEdit(t *testing.T) {
	for name, c := range map[string]struct {
		at   func(call) bool
		exit int
	}{
		"41 before COMMIT": {func(c call) bool { return c.name == "fsync" }, 40},
		"41 after COMMIT":  {isCommit, 41},
	} {
		row(t, name, func(t *testing.T) {
			b := onTmpfs(t, "size=4m", "")
			b.expect(0, b.runs("1"))
			start := b.look()
			at := b.callOf(t, "2", c.at)
			b.restore(t, start)
			e := b.held(t, at, func() { b.put("/etc/site.d/a.conf", "edited\n", 0o644) })
			if e.exit != c.exit || !strings.Contains(e.output, "/etc/site.d/a.conf") {
				t.Errorf("exit %d: got %s; want exit %d and text with \"/etc/site.d/a.conf\"", e.exit, e.output, c.exit)
			}
			if c.exit == 40 {
				if got := b.read("/etc/site.d/a.conf"); got != "edited\n" {
					t.Errorf("a.conf: got %q; want what was edited", got)
				}
				if l := b.look().litter(); l != nil {
					t.Errorf("left behind: got %v; want nil", l)
				}
				b.heals()
				return
			}
			start["/etc/site.d/a.conf"] = b.look()["/etc/site.d/a.conf"]
			for p, n := range b.look() {
				if was, there := start[p]; !ours(p) && !n.mode.IsDir() && !temporary.MatchString(p) &&
					(!there || was != n) {
					t.Errorf("%s was changed, want it as it was", p)
				}
			}
			b.expect(0, b.line("recover")) // puts the generation before back
			b.is("1")
			b.heals()
		})
	}
}

// TestLimits: the process may not do what it needs.
func TestLimits(t *testing.T) {
	row(t, "40 too few descriptors", func(t *testing.T) {
		b := onTmpfs(t, "size=4m", "")
		b.expect(0, b.runs("1"))
		ends := map[int]int{}
		for n := 3; n <= 40; n++ {
			start := b.look()
			b.before = []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", n, n)}
			e := b.do(b.runs("2"))
			b.before = nil
			ends[e.exit]++
			if e.exit == 0 {
				break
			}
			b.only(
				start,
			) // with too few to clean up as well, the list of what is to be cleaned up stays for the next run
		}
		t.Log("exit codes of runs with 3 descriptors and more:", ends)
		if ends[40] == 0 || ends[41]+ends[42] != 0 {
			t.Error(ends)
		}
		b.heals()
	})
}
