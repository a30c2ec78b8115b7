package generation

import (
	"testing"
)

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
	if err := s.disk.unlink(s.dir, heldName); err != nil {
		t.Fatal(err)
	}
}
