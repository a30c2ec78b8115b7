package detector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/tape"
)

// mayMount skips a test on a machine where no slot can have a file system of its own.
func mayMount(t *testing.T) {
	t.Helper()
	needsRoot(t)
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "")
	if errors.Is(err, unix.EPERM) {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	must(t, err)
	must(t, unix.Unmount(dir, 0))
}

// TestFills checks that files of a detector use up neither /run nor the folder of another detector.
func TestFills(t *testing.T) {
	mayMount(t)
	b := newBench(t, "fills", "good")

	type result struct {
		said tape.DetectorAns
		ans  tape.Answer
	}
	done := make(chan result)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		said, ans, _ := tape.Detector.Ask(ctx, b.host, tape.DetectorReq{Name: "fills"})
		done <- result{said, ans}
	}()
	if _, ans, _ := b.askFor("good"); ans.Fault != nil {
		t.Errorf("good detector at the same time: got %s: %s, want an answer", ans.Name(), ans.Why())
	}
	r := <-done
	if here, _ := filepath.Glob(b.dir + "/run/sockets/*/*"); len(here) > 0 {
		t.Errorf("in the folders of sockets: got %d files; want none", len(here))
	}

	if r.ans.Fault != nil {
		t.Fatalf("got %s: %s; want an answer", r.ans.Name(), r.ans.Why())
	}
	n, err := strconv.Atoi(r.said.Attributes["files"])
	if last := r.said.Attributes["last"]; err != nil || n == 0 || n > folderInodes ||
		!strings.Contains(last, unix.ENOSPC.Error()) {
		t.Errorf("got %q files and then %q; want 1 to %d and then %q",
			r.said.Attributes["files"], last, folderInodes, unix.ENOSPC)
	}
	if len(r.said.Sandbox) > 0 {
		t.Errorf("of the sandbox lacks: got %q; want nothing", r.said.Sandbox)
	}
	b.nothingLeft(t)
}

// TestNests: folders nested as deep as a detector can, without Landlock, keep no slot from the next detector.
func TestNests(t *testing.T) {
	mayMount(t)
	b := newBench(t, "nests", "good")
	b = b.without("landlock")
	said, ans, _ := b.askFor("nests")
	if n, _ := strconv.Atoi(said.Attributes["folders"]); n == 0 {
		t.Fatalf("got %v, %s; want folders", said.Attributes, ans.Why())
	}
	if _, ans, _ := b.askFor("good"); ans.Fault != nil {
		t.Errorf("next detector: got %s: %s, want an answer", ans.Name(), ans.Why())
	}
	b.nothingLeft(t)
}

// TestEmptyFolder removes deeply nested folders.
func TestEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	top, err := os.Open(dir)
	must(t, err)
	defer top.Close()
	const depth = 3000
	at := int(top.Fd())
	for i := range depth {
		must(t, unix.Mkdirat(at, "d", 0o700))
		must(t, unix.Mknodat(at, "file", unix.S_IFREG|0o600, 0))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		must(t, err)
		if i > 0 {
			_ = unix.Close(at)
		}
		at = next
	}
	_ = unix.Close(at)

	if err := emptyFolder(dir); err != nil {
		t.Errorf("got %v; want no error", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: got %d entries, %v; want none", len(left), err)
	}
}

// TestBadSlot checks that an unusable slot does not block the others, and is reported if all are unusable.
func TestBadSlot(t *testing.T) {
	needsRoot(t)
	b := newBench(t, "good")
	for n := 1; n <= 2; n++ {
		name := fmt.Sprintf("run/sockets/%s%d", UserPrefix, n)
		_ = os.Remove(filepath.Join(b.dir, name)) // the folder of a slot that was used
		b.write(name, []byte("a file in the place of its folder"), 0o600)
		_, ans, _ := b.askFor("good")
		if n == 1 && ans.Fault != nil {
			t.Errorf("with one bad slot: got %s: %s; want an answer", ans.Name(), ans.Why())
		}
		if n == 2 &&
			(ans.Fault == nil || !strings.Contains(ans.Why(), "none of the detectors' users can be used. "+UserPrefix+"1: ")) {
			t.Errorf("with bad slots only: got %q; want what is wrong with them", ans.Why())
		}
	}
	must(t, os.Remove(filepath.Join(b.dir, "run/sockets", UserPrefix+"2")))
	if _, ans, _ := b.askFor("good"); ans.Fault != nil {
		t.Errorf("with the second slot repaired: got %s: %s; want an answer", ans.Name(), ans.Why())
	}
}
