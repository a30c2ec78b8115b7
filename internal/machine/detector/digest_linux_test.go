package detector

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestDigests runs a program whose content is not the locked one, with a cache that says it is: only a program that is
// not read again starts. Each row has a reason to read it.
func TestDigests(t *testing.T) {
	later := func() time.Time { return time.Now().Add(time.Minute) }
	b := newBench(t, "good")
	cache := filepath.Join(b.dir, CacheFile)
	program := filepath.Join(b.dir, Programs, "good")
	lock := filepath.Join(b.dir, Fragments, "good.json")
	locked, err := readLockFile(lock)
	must(t, err)
	ask := func(now func() time.Time) (kept string, a tape.Answer) {
		host := b.with(func(o *HostConfig) { o.Digests = cache }).host
		host.now = now
		_, a, _ = tape.Detector.Ask(b.context(), host, tape.DetectorReq{Name: "good"})

		return string(host.Digests()), a
	}

	first, a := ask(later)
	if a.Code() == fault.Denied {
		t.Skip("needs a sandbox for detectors: ", a.Why())
	}
	other := strings.Repeat("0", 64)
	wrong := strings.ReplaceAll(first, locked.SHA256, other)
	if a.Fault != nil || wrong == first {
		t.Fatalf("first run: got %q to keep, failure %q; want the digest %s", first, a.Why(), locked.SHA256)
	}
	locked.SHA256 = other
	text, err := WriteFragment(locked.LockEntry)
	must(t, err)

	clocks := map[string]func() time.Time{
		"later": later, "now": time.Now, "1970": func() time.Time { return time.Unix(0, 0) },
	}
	for _, row := range table.YAML[[]struct {
		Name   string
		Change string // a command of sh; the last one changes the program
		Now    string
		Reads  bool
	}](t, `
- {name: the same file, now: later}
- {name: changed a moment ago, now: now, reads: true}
- {name: changed in the future, now: '1970', reads: true}
- {name: another lock, change: printf %s "$FIRST" >"$CACHE", now: later, reads: true}
- {name: cache that others may write, change: chmod 666 "$CACHE", now: later, reads: true}
- {name: damaged cache, change: 'echo [ >"$CACHE"', now: later, reads: true}
- {name: no cache, change: rm "$CACHE", now: later, reads: true}
- {name: another time, change: touch -d @1 "$PROGRAM", now: later, reads: true}
`) {
		t.Run(row.Name, func(t *testing.T) {
			b.write(CacheFile, []byte(wrong), 0o600)
			b.write(filepath.Join(Fragments, "good.json"), text, 0o644)
			change := exec.CommandContext(t.Context(), "sh", "-ec", row.Change)
			change.Env = append(os.Environ(), "CACHE="+cache, "PROGRAM="+program, "FIRST="+first)
			must(t, change.Run())

			kept, a := ask(clocks[row.Now])

			isRefused := a.Code() == fault.DetectorFailed && strings.Contains(a.Why(), "is not the locked program")
			switch {
			case row.Reads && (!isRefused || kept != ""):
				t.Errorf("got %q to keep, failure %q; want the program read and refused", kept, a.Why())
			case !row.Reads && (a.Fault != nil || kept != wrong):
				t.Errorf("got %q to keep, failure %q; want the cache used and kept", kept, a.Why())
			}
		})
	}
}

// TestShowsChange has the times of files that no run may keep a digest of.
func TestShowsChange(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	for name, row := range map[string]struct {
		modified, changed int64
		want              bool
	}{
		"installed an hour ago":        {at(-2 * time.Hour), at(-time.Hour), true},
		"modified back":                {at(-9 * time.Hour), at(-time.Second), false},
		"changed in the future":        {at(-time.Hour), at(time.Hour), false},
		"no change time":               {at(-time.Hour), 0, false},
		"one time, as in erofs images": {at(-time.Hour), at(-time.Hour), false},
	} {
		var d digest
		d.ModTime, d.Changed = row.modified, row.changed
		if got := d.showsChange(now); got != row.want {
			t.Errorf("%s: got %t, want %t", name, got, row.want)
		}
	}
}
