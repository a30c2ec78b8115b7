package generation

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/testing/sample"
)

// TestChangeAndChangeBack applies a site, another one, and the first again: the targets of the first are as after its
// first time, mode and owner too, whatever the other one has set, and a further run changes nothing.
func TestChangeAndChangeBack(t *testing.T) {
	rounds := 60
	if sample.IsFull() {
		rounds = 2000
	}
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	isRoot := os.Geteuid() == 0

	owner := func() int {
		if isRoot && r.Intn(3) == 0 {
			return 1000 + r.Intn(2)
		}

		return Keep
	}
	paths := []string{"/etc/a", "/etc/b", "/etc/c/d", "/etc/folder"}
	site := func(name string) Proposal {
		p := plan(name)
		for _, at := range paths {
			if r.Intn(5) == 0 {
				continue
			}
			t := Target{
				Path:    at,
				Kind:    File,
				Mode:    []int{Keep, Keep, 0o600, 0o640, 0o666}[r.Intn(5)],
				UID:     owner(),
				GID:     owner(),
				Content: fmt.Appendf(nil, "%d", r.Intn(3)),
				Secret:  r.Intn(6) == 0,
			}
			if at == "/etc/folder" {
				t.Kind, t.Content, t.Secret = Dir, nil, false
				if t.Mode != Keep {
					t.Mode |= 0o100 // without it only root reads the folder
				}
			}
			p.Targets = append(p.Targets, t)
		}

		return p
	}

	for range rounds {
		b := newBox(t)
		for _, at := range paths[:3] {
			if r.Intn(2) == 0 {
				b.write(at, "before", []os.FileMode{0o600, 0o644, 0o640}[r.Intn(3)])
				if id := owner(); id != Keep {
					must(t, os.Chown(b.path(at), id, id))
				}
			}
		}
		s := b.open()
		first, other := site("first"), site("other")

		b.applyIfNeeded(s, first)
		want := b.meta(first)
		b.applyIfNeeded(s, other)
		b.applyIfNeeded(s, first)
		if got := b.meta(first); !maps.Equal(got, want) {
			t.Fatalf("seed %d: after another site and back: got %v, want %v\nfirst %+v\nother %+v",
				seed, got, want, first.Targets, other.Targets)
		}
		if c, err := s.Compare(first); err != nil ||
			c.Changed && len(first.Targets) > 0 { // an empty site is not applied
			t.Fatalf("seed %d: a further run: got changes %v, %v; want none\nfirst %+v", seed, c, err, first.Targets)
		}
		s.Close()
	}
}

// applyIfNeeded commits a proposal that changes something.
func (b *box) applyIfNeeded(s *Store, p Proposal) {
	b.t.Helper()
	if len(p.Targets) == 0 {
		return
	}
	c, err := s.Compare(p)
	must(b.t, err)
	if c.Changed || c.Unrecorded {
		b.apply(s, p)
	}
}

// meta returns mode, owner and content of each target.
func (b *box) meta(p Proposal) map[string]string {
	b.t.Helper()
	out := map[string]string{}
	all := b.look()
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if !slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Path == at }) {
			continue
		}
		i, err := os.Lstat(b.path(at))
		must(b.t, err)
		st := i.Sys().(*syscall.Stat_t)
		out[at] = fmt.Sprintf("%s %d:%d %s", all[at].mode, st.Uid, st.Gid, all[at].content)
	}

	return out
}
