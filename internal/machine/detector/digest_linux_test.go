package detector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
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
		_, a, _ = tape.Detector.Ask(t.Context(), host, tape.DetectorReq{Name: "good"})

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

	for _, row := range []struct {
		name   string
		change func() error
		now    func() time.Time
		reads  bool
	}{
		{name: "the same file", now: later},
		{name: "changed a moment ago", now: time.Now, reads: true},
		{name: "changed in the future", now: func() time.Time { return time.Unix(0, 0) }, reads: true},
		{
			name:   "another lock",
			change: func() error { return os.WriteFile(cache, []byte(first), 0o600) },
			now:    later,
			reads:  true,
		},
		{
			name:   "cache that others may write",
			change: func() error { return os.Chmod(cache, 0o666) },
			now:    later,
			reads:  true,
		},
		{
			name:   "damaged cache",
			change: func() error { return os.WriteFile(cache, []byte("["), 0o600) },
			now:    later,
			reads:  true,
		},
		{name: "no cache", change: func() error { return os.Remove(cache) }, now: later, reads: true},
		{
			name:   "another time",
			change: func() error { return os.Chtimes(program, time.Unix(1, 0), time.Unix(1, 0)) },
			now:    later,
			reads:  true,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			b.write(CacheFile, []byte(wrong), 0o600)
			b.write(filepath.Join(Fragments, "good.json"), text, 0o644)
			if row.change != nil {
				must(t, row.change())
			}

			kept, a := ask(row.now)

			isRefused := a.Code() == fault.DetectorFailed && strings.Contains(a.Why(), "is not the locked program")
			switch {
			case row.reads && (!isRefused || kept != ""):
				t.Errorf("got %q to keep, failure %q; want the program read and refused", kept, a.Why())
			case !row.reads && (a.Fault != nil || kept != wrong):
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
