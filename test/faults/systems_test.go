package faults

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSweepXFS and TestSweepBtrfs sweep on file systems that keep their own order: xfs forgets the size of a file
// that was not fsynced, btrfs writes a tree for each fsync. btrfs has no ioctl to cut the power: there, the disk is
// copied.
func TestSweepXFS(t *testing.T) { sweepOn(t, filesystems[1], density{stride: 8, recovery: 60}) }

func TestSweepBtrfs(t *testing.T) { sweepOn(t, filesystems[2], density{stride: 8, recovery: 60}) }

// TestSweepBinary sweeps the real binary, from its start to its end, on files below a root. It works on several
// threads, and strace counts on each by itself, so that a kill may miss; the writer, on one, has every point.
func TestSweepBinary(t *testing.T) {
	chosen := chooseDensity(density{stride: 1, recovery: 30})
	s := &stage{filesystem: filesystems[0], loose: true, dir: scratch(t), fresh: secretText + " 2"}
	s.Name = "prelet run"
	b := newBox(t, filepath.Join(s.dir, s.filesystem.name, "root"), "")
	must(t, os.RemoveAll(b.root)) // the disk will be there
	s.line = func(verb string, _ *disk, _ string) []string {
		switch verb {
		case "prepare":
			b.put("/etc/site.d/a.conf", "as before prelet\n", 0o644)
			b.put("/etc/site.d/foreign.conf", "none of ours\n", 0o640)
			b.put("/var/lib/kubelet/pki/keep", "none of ours\n", 0o600)
			return b.runs("1")
		case "recover":
			return b.line("recover")
		}
		return b.runs("2")
	}
	s.build(t)
	pick := points(s.calls, s.dir, false)
	s.sweep(t, pick, chosen.recovery)
	t.Logf("%d of %d calls, %d kills missed", len(pick), len(s.calls), s.missed)
	if s.missed*10 > len(pick) {
		t.Errorf("got no kill %d of %d times, want each one", s.missed, len(pick))
	}
	for _, x := range (order{root: b.root}).check(s.calls, false) {
		t.Error(x)
	}
}
