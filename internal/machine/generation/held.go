package generation

import "errors"

const heldName = "held.json"

// held is held.json: the plans that must not be applied.
type held struct {
	Version int                  `json:"version"`
	Plans   map[string]heldEntry `json:"plans,omitempty"`
	Pin     *heldEntry           `json:"pin,omitempty"`
}

type heldEntry struct {
	Gen int    `json:"gen,omitempty"` // of the pin
	Why string `json:"why"`
}

func parseHeld(b []byte) (*held, error) {
	h, err := decode[held](b)
	if err == nil && isNewer(h.Version) { // it may hold plans in a way that is not known here: each plan is held
		err = reportNewer(h.Version)
	}

	return h, err
}

// readHeld returns held.json; an empty list if the file is missing, and with every error. Only a rollback that is
// finished after an interruption finds a damaged list, and replaces it.
func (s *Store) readHeld() (*held, error) {
	if s.dir == nil || s.hidden != nil {
		return &held{}, nil
	}
	if j, err := s.Journal(); err == nil && j != nil && j.Release {
		return &held{}, nil // the commit has released it
	}

	h, err := readDocument(s, s.dir, heldName, parseHeld)
	if h == nil {
		h = &held{}
	}

	return h, err
}

// ByHand is the reason of a rollback that a person asked for. It pins the generation whose contents it restores.
const ByHand = "prelet rollback"

// changeHeld changes held.json, unless change returns false. A damaged list is replaced. It may use the space reserved
// for a rollback, because a rollback holds or pins.
func (s *Store) changeHeld(change func(h *held) bool) error {
	h, err := s.readHeld()
	if err != nil && !isDamaged(err) {
		return err
	}
	if !change(h) {
		return nil
	}
	h.Version = formatVersion

	return s.replaceAnyway(s.dir, heldName, encode(h))
}

// Hold prevents a plan from being applied again until Release. It writes nothing if the plan is held already for the
// same reason.
func (s *Store) Hold(planID, why string) error {
	if planID == "" {
		return reportMisuse("hold", heldName, "the plan has no identity")
	}

	return s.changeHeld(func(h *held) bool {
		if h.Plans == nil {
			h.Plans = map[string]heldEntry{}
		}
		was, isHeld := h.Plans[planID]
		h.Plans[planID] = heldEntry{Why: why}

		return !isHeld || was.Why != why
	})
}

// releasePlan ends the hold of a plan, if there is one.
func (s *Store) releasePlan(planID string) error {
	return s.changeHeld(func(h *held) bool {
		_, isHeld := h.Plans[planID]
		delete(h.Plans, planID)

		return isHeld
	})
}

// Held reports whether a plan is held, and why. If the list cannot be read, every plan is held.
func (s *Store) Held(planID string) (why string, ok bool) {
	h, err := s.readHeld()
	if err != nil {
		return err.Error(), true
	}
	e, ok := h.Plans[planID]

	return e.Why, ok
}

// HeldAll returns the held plans and their reasons; none for a list of a newer version, see Newer.
func (s *Store) HeldAll() (map[string]string, error) {
	h, err := s.readHeld()
	if err != nil && !errors.Is(err, ErrNewer) {
		return nil, err
	}

	out := map[string]string{}
	for id, e := range h.Plans {
		out[id] = e.Why
	}

	return out, nil
}

// Pin prevents every plan from being applied until Release, because a person chose generation gen.
func (s *Store) Pin(gen int, why string) error {
	return s.changeHeld(func(h *held) bool {
		was, pin := h.Pin, heldEntry{Gen: gen, Why: why}
		h.Pin = &pin

		return was == nil || *was != pin
	})
}

// Pinned returns the pinned generation and the reason; ok is false if none is pinned, or the list cannot be read.
func (s *Store) Pinned() (gen int, why string, ok bool) {
	h, err := s.readHeld()
	if err != nil || h.Pin == nil {
		return 0, "", false
	}

	return h.Pin.Gen, h.Pin.Why, true
}

// Release ends every hold and the pin, also of a rollback that awaits its verdict.
func (s *Store) Release() error {
	if s.dir == nil { // read-only, and nothing was ever held
		return nil
	}
	if err := s.dropHeld(); err != nil {
		return err
	}

	j, err := s.Journal()
	if err != nil || j == nil || j.Phase != PhaseVerify || j.HoldPlan == "" {
		return err
	}
	j.HoldPlan = ""

	return s.replaceAnyway(s.dir, journalName, encode(j))
}

// dropHeld ends every hold and the pin durably.
func (s *Store) dropHeld() error {
	isThere, err := exists(s.dir, heldName)
	if err != nil || !isThere {
		return err
	}

	return s.removeDurably(s.dir, heldName)
}
