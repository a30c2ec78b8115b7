package apply

import (
	"errors"

	"github.com/prelet/prelet/internal/generation"
)

// heldBefore are the held plans and the pin of a store, as they were before something that may fail, and what stood in place then.
type heldState struct {
	store   *generation.Store
	plans   map[string]string
	pinned  bool
	pin     int
	why     string
	journal generation.Journal // none: the zero one
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

	if j := h.journal; j.Phase == generation.PhaseVerify && j.HoldPlan != "" { // what the verdict on going back would hold
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

// unlessMoved passes err on, and puts back what was held when err came before the journal moved: then nothing was changed, and the
// next boot must not do what failed now. Where that cannot be told, what is held stays as it is.
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

// LetGo releases every held plan and the pin, and does what that was for. When that fails with nothing changed, they are held as
// before. A list that cannot be read is given up.
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
