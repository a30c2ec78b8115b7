package commit

import (
	"os"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestRunBelowRoot runs plans one after the other below one root.
func TestRunBelowRoot(t *testing.T) {
	b := newBench(t)

	type want struct {
		code    fault.Code
		summary string
		held    string // a part of the reason; "" for none
		changed bool
		content string // of the managed file
	}

	check := func(name string, got Result, w want) {
		t.Helper()

		content, _ := os.ReadFile(b.dir + "/etc/a")
		isHeld := got.Held != ""

		if got.Code != w.code || got.Summary != w.summary || got.Changed != w.changed || string(content) != w.content ||
			isHeld != (w.held != "") || !strings.Contains(got.Held, w.held) {
			t.Errorf("%s: got %q, %q, held %q, changed %t, content %q; want %+v",
				name, got.Code, got.Summary, got.Held, got.Changed, content, w)
		}
	}

	run := func(hash string, retry bool) Result { return RunBelowRoot(complete(hash), b.Options, retry, "/image") }

	check("a plan with an error", RunBelowRoot(unreachable(), nil, false, "/image"),
		want{code: fault.ClusterUnreachable, summary: "no answer: Why: so"})
	check("the first", run("one", false), want{summary: "generation 1 is in place", changed: true, content: "one"})
	check("the same again", run("one", false), want{summary: "no changes; generation 1 is in place", content: "one"})

	if err := b.Store.Pin(1, "me"); err != nil {
		t.Fatal(err)
	}

	check("pinned", run("two", false), want{
		summary: "no changes; generation 1 is in place", content: "one",
		held: "generation 1 is pinned (me), so nothing is written; to apply the site again: `prelet rollback --release --root /image`",
	})
	check("released", run("two", true), want{summary: "generation 2 is in place", changed: true, content: "two"})

	if _, _, isPinned := b.Store.Pinned(); isPinned {
		t.Error("got a pin after --retry; want none")
	}

	if err := b.Store.Pin(2, "me"); err != nil {
		t.Fatal(err)
	}

	check("released without a change", run("two", true),
		want{summary: "no changes; generation 2 is in place", content: "two"})

	if _, _, isPinned := b.Store.Pinned(); isPinned {
		t.Error("got a pin after --retry without a change; want none")
	}

	if err := os.RemoveAll(b.dir + "/etc"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.dir+"/etc", nil, 0o644); err != nil {
		t.Fatal(err)
	}

	got := run("three", false)
	if got.Code != fault.CannotWrite || got.Err == nil || got.Summary != got.Err.Error() {
		t.Errorf("a file for a folder: got %q, %q, %v; want %q and the error as the summary",
			got.Code, got.Summary, got.Err, fault.CannotWrite)
	}
}
