package apply

import (
	"errors"

	"github.com/prelet/prelet/internal/generation"
)

// heldState contains the held plans, the pin and the generation in place of a store before a change that may fail.
type heldState struct {
	store   *generation.Store
	plans   map[string]string
	pinned  bool
	pin     int
	why     string
	journal generation.Journal // zero without a journal
	gen     int                // in place; 0: none
}

func readHeld(s *generation.Store) (*heldState, error) {
	h := &heldState{store: s}

	var err error
	if h.plans, err = s.HeldAll(); err != nil {
		return nil, err
	}

	h.pin, h.why, h.pinned = s.Pinned()
	if h.journal, h.gen, err = readInPlace(s); err != nil {
		return nil, err
	}

	// The verdict on the rollback would hold this plan.
	if j := h.journal; j.Phase == generation.PhaseVerify && j.HoldPlan != "" {
		h.plans[j.HoldPlan] = j.Why
	}

	return h, nil
}

func readInPlace(s *generation.Store) (generation.Journal, int, error) {
	j, err := s.Journal()
	if err != nil {
		return generation.Journal{}, 0, err
	}

	if j == nil {
		j = &generation.Journal{}
	}

	cur, err := s.Current()
	if err != nil || cur == nil {
		return *j, 0, err
	}

	return *j, cur.Gen, nil
}

// restoreIfUnchanged returns err. If err occurred before the journal changed, it restores what was held: nothing was
// changed, and the next boot must not repeat what failed now. If the state cannot be read, nothing is restored.
func (h *heldState) restoreIfUnchanged(err error) error {
	if err == nil {
		return nil
	}

	j, gen, unread := readInPlace(h.store)
	if unread != nil || gen != h.gen || j.Gen != h.journal.Gen || j.Phase != h.journal.Phase {
		return err
	}

	undo := h.store.Release()
	for plan, why := range h.plans {
		undo = errors.Join(undo, h.store.Hold(plan, why))
	}

	if h.pinned {
		undo = errors.Join(undo, h.store.Pin(h.pin, h.why))
	}

	if undo != nil {
		return errors.Join(err, undo)
	}

	return err
}

// ReleaseHeld releases every held plan and the pin, and calls do. If do fails with nothing changed, they are held
// again. A list that cannot be read is dropped.
func ReleaseHeld(s *generation.Store, do func() error) error {
	was, unread := readHeld(s)
	if err := s.Release(); err != nil {
		return err
	}

	err := do()
	if unread != nil {
		return err
	}

	return was.restoreIfUnchanged(err)
}
