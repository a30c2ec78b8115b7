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
				must(t, err)
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
	must(t, err)
	to := 1
	txn, err := s.stage(c, first, &to)
	must(t, err)
	j := &Journal{Version: formatVersion, Phase: PhaseRollback, From: 2, To: to, Why: why}
	must(t, txn.commit(j))
	must(t, s.publish(txn.m, true))
	must(t, s.finishRollback(j))
	must(t, s.Good(txn.m.Gen, nil))
	must(t, s.disk.unlink(s.dir, heldName))
}
