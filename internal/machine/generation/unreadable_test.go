package generation

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
)

// TestUnreadable spoils a target in each state that it may be in. What prelet writes takes its place, nothing that lacks
// a content is kept, and each later change works.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	const target = "/etc/kubernetes/a"
	first, second := plan("p1", file(target, "first")), plan("p2", file(target, "second"))
	onlyOnce := plan("p1", with(file(target, "first"), func(t *Target) { t.CreateOnly = true }))
	other := plan("p3", file("/etc/kubernetes/b", "b"))
	errStop := errors.New("stop")

	for name, c := range map[string]struct {
		before, proposal Proposal
		original         string // before prelet; "": none
		stopAt           string // the operation at which the commit before is interrupted
		want, back       string // after the commit, and after a rollback to as before prelet
	}{
		"of the generation":    {before: first, proposal: second, want: "second", back: "absent"},
		"unchanged":            {before: first, proposal: first, want: "first", back: "absent"},
		"of before":            {before: first, proposal: second, original: "old", want: "second", back: "old"},
		"not of prelet":        {proposal: first, original: "old", want: "first", back: "absent"},
		"no longer declared":   {before: first, proposal: other, want: "absent", back: "absent"},
		"restored":             {before: first, proposal: other, original: "old", want: "old", back: "old"},
		"in an interruption":   {before: first, proposal: second, stopAt: opRename, want: "second", back: "absent"},
		"written only once":    {before: onlyOnce, proposal: onlyOnce, want: "unreadable", back: "unreadable"},
		"not declared, unseen": {before: onlyOnce, proposal: other, want: "unreadable", back: "unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write("/etc/kubernetes/kept", "kept", 0o644)
			if c.original != "" {
				b.write(target, c.original, 0o640)
			}
			s := b.open()
			if c.before.PlanID != "" {
				must(t, s.Good(b.apply(s, c.before), nil))
			}
			if c.stopAt != "" {
				txn, err := s.Begin(c.proposal)
				must(t, err)
				_, err = txn.Commit()
				must(t, err)
				s.disk.fault = func(op, path string) error {
					if op == c.stopAt && strings.HasSuffix(path, target) {
						return errStop
					}
					return nil
				}
				if err := txn.Publish(); !errors.Is(err, errStop) {
					t.Fatalf("Publish: got %v, want %v", err, errStop)
				}
				s.disk.fault = nil
			}
			hangfs.SpoilFile(t, b.path(target))

			if _, _, err := s.Observe(target); !errors.Is(err, unix.EIO) {
				t.Errorf("Observe: got %v, want EIO", err)
			}
			if c.stopAt != "" {
				_, err := s.Recover()
				must(t, err)
			} else if _, err := apply(s, c.proposal); err != nil && !errors.Is(err, ErrNothing) {
				t.Fatal(err)
			}
			cur, err := s.Current()
			must(t, err)
			if got := b.readSpoilt(target); got != c.want {
				t.Errorf("after the commit: got %q, want %q", got, c.want)
			}
			damaged := ListUnreadable(cur.Entries)
			isNamed := len(damaged) == 1 && damaged[0] == target+": its content cannot be read: input/output error"
			if wantNamed := c.want != "unreadable" && c.stopAt == ""; isNamed != wantNamed {
				t.Errorf("ListUnreadable: got %q, want the file: %t", damaged, wantNamed)
			}

			_, err = s.Rollback(cur.Gen, 0, "test", false, nil)
			must(t, err)
			if got := b.readSpoilt(target); got != c.back {
				t.Errorf("as before prelet: got %q, want %q", got, c.back)
			}
			must(t, s.findDamage())
		})
	}
}

// readSpoilt is read for a file that may be unreadable.
func (b *box) readSpoilt(p string) string {
	b.t.Helper()
	o, err := (&Store{o: b.o}).observe(p)
	must(b.t, err)
	switch {
	case o.damage != nil:
		return "unreadable"
	case o.state.Kind == Absent:
		return "absent"
	}
	return string(o.content)
}
