package generation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// isFolder is the content of a file of the store that is a folder.
const isFolder = "folder"

// putHeld replaces held.json.
func (b *box) putHeld(content string) {
	b.t.Helper()
	file := filepath.Join(b.o.Dir, heldName)
	err := os.RemoveAll(file)
	if content == isFolder {
		err = errors.Join(err, os.MkdirAll(filepath.Join(file, "more"), 0o700))
	} else {
		err = errors.Join(err, os.WriteFile(file, []byte(content), 0o600))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestUnreadableHeld: a held.json that cannot be read holds every plan, and stops nothing else.
func TestUnreadableHeld(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		pin     fault.Code // of Pin; "" for none
	}{
		"garbage": {"{", ""},
		"empty":   {"", ""},
		"folder":  {isFolder, ""},
		"newer":   {string(encode(&held{Version: formatVersion + 1})), fault.NeedsPerson},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			for _, content := range []string{"1", "2"} {
				if err := s.Good(b.apply(s, flipNext(content)), nil); err != nil {
					t.Fatal(err)
				}
			}
			b.putHeld(c.content)
			if j, err := s.Recover(); j != nil || err != nil {
				t.Errorf("Recover: got %v, %v, want nothing", j, err)
			}
			if all, err := s.HeldAll(); len(all) != 0 || err != nil {
				t.Errorf("HeldAll: got %v, %v, want none", all, err)
			}
			if why, ok := s.Held("any"); !ok || why == "" {
				t.Errorf("Held: got %q, %v, want every plan held", why, ok)
			}
			gen, why, ok := s.Pinned()
			if gen != Unreadable || !strings.Contains(why, heldName) || !ok {
				t.Errorf("Pinned: got %d, %q, %v, want %d and the file", gen, why, ok, Unreadable)
			}
			if err := s.Hold("bad", "died"); err != nil {
				t.Errorf("Hold: got %v, want nothing to do", err)
			}
			was, err := s.Holds()
			if exitOf(err) != c.pin {
				t.Errorf("Holds: got %v, want %q", err, c.pin)
			}
			if err := s.Pin(1, "by hand"); exitOf(err) != c.pin {
				t.Errorf("Pin: got %v, want %q", err, c.pin)
			}
			if c.pin == "" {
				if err := s.RestoreHolds(was); err != nil {
					t.Errorf("RestoreHolds: got %v, want no error", err)
				}
				if gen, _, ok := s.Pinned(); gen != Unreadable || !ok {
					t.Errorf("after RestoreHolds: got %d, %v, want %d", gen, ok, Unreadable)
				}
				if err := s.Pin(1, "by hand"); err != nil {
					t.Errorf("Pin again: got %v, want no error", err)
				}
			}
			if _, err := s.Rollback(2, 1, "by hand", true); err != nil || b.read("/etc/kubernetes/a") != "1" {
				t.Errorf("Rollback: got %v, content %q; want content 1", err, b.read("/etc/kubernetes/a"))
			}
			if gen, _, ok := s.Pinned(); c.pin == "" && (gen != 1 || !ok) {
				t.Errorf("after Pin: got %d, %v, want 1", gen, ok)
			}
			for range 2 { // the second time, what a folder left is there
				b.putHeld(c.content)
				if err := s.Release(); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, ok := s.Pinned(); ok {
				t.Error("still pinned after Release")
			}
			if _, ok := s.Held("any"); ok {
				t.Error("still held after Release")
			}
			if err := s.Pin(gen, why); err != nil { // as somebody does who takes a release back
				t.Fatal(err)
			}
			if again, _, ok := s.Pinned(); again != Unreadable || !ok {
				t.Errorf("pinned again: got %d, %v, want %d", again, ok, Unreadable)
			}
		})
	}
}

// TestHeldFileRemoved removes held.json after a rollback. What it held stays held, by the verdicts on the generations,
// until it is released.
func TestHeldFileRemoved(t *testing.T) {
	type holds struct {
		pin   string // the generation, or "none"
		plans string // of p1, p2 and p3 those that are held
	}
	// rollBack rolls generation 2 back to 1, and keep is the verdict on that.
	rollBack := func(why string, hold bool, keep func(s *Store, gen int) error) func(*Store) error {
		return func(s *Store) error {
			if why == ByHand {
				if err := s.Pin(1, why); err != nil {
					return err
				}
			}
			gen, err := s.RollbackToJudge(2, 1, why, hold)
			if err == nil {
				err = keep(s, gen)
			}

			return err
		}
	}
	good := func(s *Store, gen int) error { return s.Good(gen, nil) }
	next := func(p Proposal) func(*Store) error {
		return func(s *Store) error {
			gen, err := apply(s, p)
			if err == nil {
				err = s.Good(gen, nil)
			}

			return err
		}
	}
	byHand := rollBack(ByHand, false, good)
	blamed := rollBack("the kubelet exits", true, good)
	const target = "/etc/kubernetes/a"

	for name, c := range map[string]struct {
		steps []func(*Store) error
		want  holds
	}{
		"nothing": {nil, holds{"none", ""}},
		"by hand": {[]func(*Store) error{byHand}, holds{"1", ""}},
		"blamed":  {[]func(*Store) error{blamed}, holds{"none", "p2"}},
		"unhealthy before too": {[]func(*Store) error{rollBack("the kubelet exits", true, func(s *Store, gen int) error {
			return s.MarkUnhealthy(gen, "the disk")
		})}, holds{"none", ""}},
		"blamed, then another plan": {[]func(*Store) error{
			blamed, next(plan("p3", file(target, "3"))),
		}, holds{"none", "p2"}},
		"by hand, and its files are put back": {[]func(*Store) error{
			byHand, next(plan("p1", file(target, "changed"))),
		}, holds{"1", ""}},
		"by hand and released": {[]func(*Store) error{byHand, (*Store).Release}, holds{"none", ""}},
		"blamed and tried again": {[]func(*Store) error{blamed, next(Proposal{
			PlanID: "p2", Release: true, Targets: []Target{file(target, "2")},
		})}, holds{"none", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			for _, content := range []string{"1", "2"} {
				if err := next(plan("p"+content, file(target, content)))(s); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range c.steps {
				if err := step(s); err != nil {
					t.Fatal(err)
				}
			}

			for _, at := range []string{"before", "after"} {
				got := holds{pin: "none"}
				if gen, _, ok := s.Pinned(); ok {
					got.pin = itoa(gen)
				}
				for _, p := range []string{"p1", "p2", "p3"} {
					if _, ok := s.Held(p); ok {
						got.plans += p
					}
				}
				if got != c.want {
					t.Errorf("%s held.json is removed: got %+v, want %+v", at, got, c.want)
				}
				// An empty file is the mark of a release.
				if file := filepath.Join(b.o.Dir, heldName); c.want != (holds{"none", ""}) {
					if err := os.Remove(file); err != nil && at == "before" {
						t.Fatal(err)
					}
				}
			}

			if err := s.Release(); err != nil {
				t.Fatal(err)
			}
			if gen, why, ok := s.Pinned(); ok {
				t.Errorf("after Release: got a pin on %d (%s); want none", gen, why)
			}
			if why, ok := s.Held("p2"); ok {
				t.Errorf("after Release: p2 is held (%s); want it released", why)
			}
		})
	}
}

// TestHeldByEarlierVersion: prelet 0.1.0 removed held.json at a release. Its rollbacks hold nothing without that file.
func TestHeldByEarlierVersion(t *testing.T) {
	for _, why := range []string{ByHand, "the kubelet exits"} {
		t.Run(why, func(t *testing.T) {
			b := newBox(t)
			s := b.open()
			var proposals []Proposal
			for _, content := range []string{"1", "2"} {
				p := plan("p"+content, file("/etc/kubernetes/a", content))
				proposals = append(proposals, p)
				gen, err := apply(s, p)
				if err == nil {
					err = s.Good(gen, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			rollBackAsEarlier(t, s, proposals[0], why)

			if gen, why, ok := s.Pinned(); ok {
				t.Errorf("got a pin on %d (%s), want none", gen, why)
			}
			if why, ok := s.Held("p2"); ok {
				t.Errorf("got p2 held (%s), want it released", why)
			}
		})
	}
}

// rollBackAsEarlier writes what prelet 0.1.0 left after a rollback from generation 2 to 1 and a release.
func rollBackAsEarlier(t *testing.T, s *Store, first Proposal, why string) {
	t.Helper()
	c, err := s.Compare(first)
	if err != nil {
		t.Fatal(err)
	}
	to := 1
	txn, err := s.stage(c, first, &to)
	if err != nil {
		t.Fatal(err)
	}
	j := &Journal{Version: formatVersion, Phase: PhaseRollback, From: 2, To: to, Why: why}
	if err := txn.commit(j); err != nil {
		t.Fatal(err)
	}
	if err := s.publish(txn.m, true); err != nil {
		t.Fatal(err)
	}
	if err := s.finishRollback(j); err != nil {
		t.Fatal(err)
	}
	if err := s.Good(txn.m.Gen, nil); err != nil {
		t.Fatal(err)
	}
}
