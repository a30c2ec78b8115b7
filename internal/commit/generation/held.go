package generation

import (
	"errors"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

const heldName = "held.json"

// held is held.json: what is not to be applied.
//
// One that cannot be read endangers no file: the generation in place is whole. It only hides which plans are not to
// be tried again, so that until Release every plan counts as held, as if the generation in place were pinned. Nothing
// is refused for it but applying a plan.
type held struct {
	Version int                  `json:"version"`
	Plans   map[string]heldEntry `json:"plans,omitempty"`
	Pin     *heldEntry           `json:"pin,omitempty"`
}

type heldEntry struct {
	Gen  int       `json:"gen,omitempty"` // of the pin
	Why  string    `json:"why"`
	Time time.Time `json:"time"`
}

func parseHeld(b []byte) (*held, error) {
	h := &held{}
	if err := decode(b, h, &h.Version); err != nil {
		return nil, err
	}
	if h.Pin != nil && h.Pin.Gen < Unreadable {
		return nil, fmt.Errorf("a pin on generation %d", h.Pin.Gen)
	}
	return h, nil
}

// held is held.json; an empty one when there is none, and with every error.
func (s *Store) held() (*held, error) {
	if s.dir == nil {
		return &held{}, nil
	}

	if j, err := s.Journal(); err == nil && j != nil && j.Release {
		return &held{}, nil // the commit has released it
	}

	h, _, err := readDocument(s, s.dir, heldName, parseHeld)
	if stuck := (*StuckError)(nil); damagedHeld(err) && errors.As(err, &stuck) {
		stuck.Commands, stuck.Next = nil, "prelet rollback --release removes it, and with it every hold"
	}
	if h == nil {
		h = &held{}
	}
	return h, err
}

// putHeld may use what is set aside for going back: a plan is held, or a generation pinned, because somebody goes back.
func (s *Store) putHeld(h *held) error {
	if s.frozen != nil {
		return s.frozen
	}
	h.Version = formatVersion

	return s.putAnyway(s.dir, heldName, encode(h))
}

// damagedHeld says that held.json is there and is not what any version wrote.
func damagedHeld(err error) bool {
	var stuck *StuckError

	return errors.As(err, &stuck) && !errors.Is(err, ErrNewer)
}

// Hold keeps a plan from being applied again until Release. Held already for the same reason, or by a list that
// cannot be read: nothing is written.
func (s *Store) Hold(planID, why string) error {
	if err := s.mayWrite("hold"); err != nil {
		return err
	}
	if planID == "" {
		return NewFault(fault.Internal, "hold", s.dir.name(heldName), errors.New("a plan without identity"), "")
	}
	h, err := s.held()
	var stuck *StuckError
	if errors.As(err, &stuck) {
		return nil
	}
	if err != nil {
		return err
	}
	if old, ok := h.Plans[planID]; ok && old.Why == why {
		return nil
	}
	if h.Plans == nil {
		h.Plans = map[string]heldEntry{}
	}
	h.Plans[planID] = heldEntry{Why: why, Time: s.o.Now().UTC()}
	return s.putHeld(h)
}

// Held says whether a plan is held, and why. When the list cannot be read every plan is: what is in place stays.
func (s *Store) Held(planID string) (why string, ok bool) {
	h, err := s.held()
	if err != nil {
		return err.Error(), true
	}
	if e, ok := h.Plans[planID]; ok {
		return e.Why, true
	}
	if s.dir != nil {
		if j, err := s.Journal(); err == nil && j != nil && j.HoldPlan == planID && planID != "" { // the verdict on going back decides
			return j.Why, true
		}
	}
	return "", false
}

// HeldAll lists the held plans with their reasons. A list that is damaged, or of a newer version, is empty here: Pinned
// says so.
func (s *Store) HeldAll() (map[string]string, error) {
	h, err := s.held()
	var stuck *StuckError
	if err != nil && !errors.As(err, &stuck) {
		return nil, err
	}
	out := map[string]string{}
	for id, e := range h.Plans {
		out[id] = e.Why
	}
	return out, nil
}

// Pin keeps every plan from being applied, whatever it is, until Release: somebody went to generation gen by hand. A
// list that is damaged is replaced: the pin holds every plan that it could have held, and Release lets go of all of
// them.
func (s *Store) Pin(gen int, why string) error {
	if err := s.mayWrite("pin"); err != nil {
		return err
	}
	h, err := s.held()
	if err != nil && !damagedHeld(err) {
		return err
	}
	if h.Pin != nil && h.Pin.Gen == gen && h.Pin.Why == why {
		return nil
	}
	h.Pin = &heldEntry{Gen: gen, Why: why, Time: s.o.Now().UTC()}
	return s.putHeld(h)
}

// Unreadable is what Pinned tells in place of a generation when held.json cannot be read. Pin takes it as well, to
// put back what Pinned told.
const Unreadable = -1

// Pinned says whether a generation is pinned, which, and why. When that cannot be read it is, on Unreadable: what is in
// place stays.
func (s *Store) Pinned() (gen int, why string, ok bool) {
	h, err := s.held()
	var stuck *StuckError
	switch {
	case errors.As(err, &stuck):
		return Unreadable, stuck.Path + ": " + stuck.Why, true
	case err != nil:
		return Unreadable, err.Error(), true
	}
	if h.Pin == nil {
		return 0, "", false
	}
	return h.Pin.Gen, h.Pin.Why, true
}

// Release lets go of every held plan and of the pin, and of the plan that a verdict on going back would hold.
func (s *Store) Release() error {
	if err := s.mayWrite("release"); err != nil {
		return err
	}
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
	return s.putAnyway(s.dir, journalName, encode(j))
}

// dropHeld removes held.json durably, if there is one.
func (s *Store) dropHeld() error {
	_, exists, err := printAt(s.dir, heldName)
	if err != nil || !exists {
		return err
	}

	if err := s.disk.unlink(s.dir, heldName); err != nil {
		return err
	}

	return s.disk.sync(s.dir)
}

// Holds is what is held and pinned at one moment, as Holds returned it.
type Holds struct{ held *held }

// Holds returns what is held and pinned, for RestoreHolds. A damaged list, which holds every plan, is restored as a pin
// on Unreadable.
func (s *Store) Holds() (Holds, error) {
	h, err := s.held()
	if damagedHeld(err) {
		_, why, _ := s.Pinned()
		return Holds{&held{Pin: &heldEntry{Gen: Unreadable, Why: why, Time: s.o.Now().UTC()}}}, nil
	}

	return Holds{h}, err
}

// RestoreHolds makes what is held and pinned as it was, in one write.
func (s *Store) RestoreHolds(was Holds) error {
	switch err := s.mayWrite("hold"); {
	case err != nil:
		return err
	case was.held.Pin == nil && len(was.held.Plans) == 0:
		return s.dropHeld()
	}

	return s.putHeld(was.held)
}
