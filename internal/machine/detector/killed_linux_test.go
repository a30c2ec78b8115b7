package detector

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// askVariable makes this test's program a prelet that asks one detector, of the bench in that folder, and waits for
// ever.
const askVariable = "PRELET_TEST_ASKS"

// Its detector is so slow that no deadline ends the wait of this test: twice patience is less.
const askFor, patience = 3 * longest, longest

func askAndWait(dir string) {
	h := New(HostConfig{Root: dir, RunDir: dir + "/run", Helper: dir + "/" + helperName, Passwd: dir + "/passwd"})
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	_, _, _ = tape.Detector.Ask(ctx, h, tape.DetectorReq{Name: "hang-child"}) // until it is killed
}

// TestPreletIsKilled kills prelet: prelet-detect and the detector end too. Processes that the detector started are
// killed with the unit's cgroup under systemd; without systemd the next user of the slot ends them.
func TestPreletIsKilled(t *testing.T) {
	b := newBench(t, "hang-child", "good")
	if os.Geteuid() != 0 {
		if _, ans, _ := b.askFor("good"); ans.Code() == fault.Denied {
			t.Skip("needs a sandbox for detectors: ", ans.Why())
		}
	}
	prelet := exec.Command("/proc/self/exe")
	prelet.Env = append(os.Environ(), askVariable+"="+b.dir)
	must(t, prelet.Start())
	runs := func(name string) bool {
		return slices.ContainsFunc(b.left(), func(l string) bool { return strings.Contains(l, " "+name) })
	}
	within := func(what string, is func() bool) {
		t.Helper()
		// Polled: they are children of another program, and /proc alone shows what runs.
		for late := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(late) {
				_ = prelet.Process.Kill()
				t.Fatalf("want that %s within %v, got %q", what, patience, b.left())
			}
		}
	}
	seen := os.Geteuid() == 0 // what prelet-detect executes is only root's to see
	within("all three run", func() bool { return (runs(helperName) || !seen) && runs("hang-child") && runs("sleeper") })
	must(t, prelet.Process.Kill())
	var killed *exec.ExitError
	if err := prelet.Wait(); !errors.As(err, &killed) {
		t.Fatal(err)
	}
	within(
		"prelet-detect and the detector end",
		func() bool { reapUser(b.uid); return !runs(helperName) && !runs("hang-child") },
	)
	if os.Geteuid() != 0 { // a user's own programs are never ended by prelet
		for _, l := range b.left() {
			pid, _ := strconv.Atoi(strings.Fields(l)[0])
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return
	}
	if !runs("sleeper") {
		t.Fatal("the child is gone too: this does not test the slot")
	}
	if _, ans, _ := b.askFor("good"); ans.Fault != nil {
		t.Errorf("next detector: got %s: %s, want an answer", ans.Name(), ans.Why())
	}
	b.nothingLeft(t)

	folders, _ := filepath.Glob(b.dir + "/run/sockets/*")
	if len(folders) == 0 {
		t.Error("got no folder of a slot, want one")
	}
	for _, folder := range folders {
		if isMounted, err := isSmallTmpfs(folder); isMounted || err != nil {
			t.Errorf("%s: mounted: got %v and error %v, want the mount of the killed prelet gone", folder, isMounted, err)
		}
	}
}
