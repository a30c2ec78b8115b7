package generation

import (
	"errors"
	"slices"
)

const heldName = "held.json"

// held is held.json: the plans that must not be applied.
//
// A damaged file endangers no target, because the generation in place is whole. It only hides which plans must not be
// tried again. Therefore every plan counts as held until Release, as if the generation in place were pinned, and only
// applying a plan is refused.
type held struct {
	Version int                  `json:"version"`
	Plans   map[string]heldEntry `json:"plans,omitempty"`
	Pin     *heldEntry           `json:"pin,omitempty"`

	isMissing bool // the file was removed, and this is from heldByHistory
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

// readHeld returns held.json. If the file is missing, it derives the list from the generations (heldByHistory). It
// returns an empty list with every error.
func (s *Store) readHeld() (*held, error) {
	if s.dir == nil {
		return &held{}, nil
	}
	if j, err := s.Journal(); err == nil && j != nil && j.Release {
		return &held{}, nil // the commit has released it
	}

	h, err := readDocument(s, s.dir, heldName, parseHeld)
	stuck := (*StuckError)(nil)
	if isDamaged(err) && errors.As(err, &stuck) {
		stuck.Command = ""
		stuck.Next = "prelet rollback --release removes it, and with it every hold"
	}
	switch {
	case h != nil:
		return h, err
	case err != nil:
		return &held{}, err
	}

	return s.heldByHistory(), nil
}

// ByHand is the reason of a rollback that a person asked for. It pins the generation whose contents it restores.
const ByHand = "prelet rollback"

// holdsBlob is a blob, always {}, of the generation that a rollback makes: a release of that rollback leaves an empty
// held.json. Prelet 0.1.0 removed held.json at a release, so that its rollbacks say nothing about a missing file.
const holdsBlob = "holds"

// heldByHistory returns what held.json had, if it was removed, from the verdicts on the generations: the plans that
// were rolled back and not applied again, and the generation that a person chose. A release leaves an empty held.json,
// so that these verdicts do not count any more.
func (s *Store) heldByHistory() *held {
	h := &held{Plans: map[string]heldEntry{}, isMissing: true}
	if !s.hasRolledBack() {
		return h
	}
	all, err := s.List()
	if err != nil {
		return h
	}

	var last Info
	blamed := "" // the last plan that a verdict rolled back
	for _, g := range all {
		isEnd := last.Status == StatusRolledBack && s.leavesHolds(g.Gen)
		isSite := g.Restores < 0 && g.PlanID != last.PlanID
		switch {
		case isEnd && last.Why == ByHand:
			h.Pin = &heldEntry{Gen: g.Restores, Why: ByHand}
		case isEnd && g.Status == StatusRestored && g.Why != "": // unhealthy as well, so that plan was not at fault
		case isEnd:
			blamed = last.PlanID
			h.Plans[blamed] = heldEntry{Why: last.Why}
		case isSite && last.Status == StatusRestored: // before the verdict on the rollback
			delete(h.Plans, blamed)
		}
		if isSite {
			delete(h.Plans, g.PlanID)
			h.Pin = nil
		}
		last = g
	}

	return h
}

// leavesHolds reports whether a rollback made a generation, and a release of it leaves an empty held.json.
func (s *Store) leavesHolds(gen int) bool {
	p, err := s.pack(gen)

	return err == nil && p.m.Restores != nil && p.findBlob(holdsBlob) >= 0
}

// hasRolledBack reports whether a generation was rolled back.
func (s *Store) hasRolledBack() bool {
	l, err := s.listing()
	if err != nil {
		return false
	}

	return slices.ContainsFunc(l.statuses, func(gen int) bool {
		st, err := s.readStatusFile(gen)

		return err == nil && st != nil && st.Status == StatusRolledBack
	})
}

// putHeld writes held.json. It may use the space reserved for a rollback, because a rollback holds or pins.
func (s *Store) putHeld(h *held) error {
	if s.frozen != nil {
		return s.frozen
	}
	h.Version = formatVersion

	return s.replaceAnyway(s.dir, heldName, encode(h))
}

// isStuck reports whether an error needs a person.
func isStuck(err error) bool {
	var stuck *StuckError

	return errors.As(err, &stuck)
}

// isDamaged reports whether a file exists and no version wrote it like that.
func isDamaged(err error) bool {
	return isStuck(err) && !errors.Is(err, ErrNewer)
}

// Hold prevents a plan from being applied again until Release. It writes nothing if the plan is held already for the
// same reason, or by a list that cannot be read.
func (s *Store) Hold(planID, why string) error {
	if err := s.checkLocked("hold"); err != nil {
		return err
	}
	if planID == "" {
		return reportMisuse("hold", s.dir.name(heldName), "the plan has no identity")
	}

	h, err := s.readHeld()
	if isStuck(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if old, ok := h.Plans[planID]; ok && old.Why == why && !h.isMissing {
		return nil
	}

	if h.Plans == nil {
		h.Plans = map[string]heldEntry{}
	}
	h.Plans[planID] = heldEntry{Why: why}

	return s.putHeld(h)
}

// releasePlan ends the hold of a plan that has this reason, if there is one.
func (s *Store) releasePlan(planID, why string) error {
	h, err := s.readHeld()
	if isStuck(err) {
		return nil // it holds every plan until Release
	}
	if err != nil {
		return err
	}
	if e, ok := h.Plans[planID]; !ok || e.Why != why {
		return nil
	}
	delete(h.Plans, planID)
	if len(h.Plans) == 0 && h.Pin == nil {
		return s.dropHeld()
	}

	return s.putHeld(h)
}

// Held reports whether a plan is held, and why. If the list cannot be read, every plan is held.
func (s *Store) Held(planID string) (why string, ok bool) {
	h, err := s.readHeld()
	if err != nil {
		return err.Error(), true
	}
	if e, ok := h.Plans[planID]; ok {
		return e.Why, true
	}

	j, err := s.Journal()
	if err != nil || j == nil || planID == "" || j.HoldPlan != planID {
		return "", false
	}

	return j.Why, true // until the verdict on the rollback
}

// HeldAll returns the held plans and their reasons. It returns none for a list that is damaged or comes from a newer
// version; Pinned reports that.
func (s *Store) HeldAll() (map[string]string, error) {
	h, err := s.readHeld()
	if err != nil && !isStuck(err) {
		return nil, err
	}

	out := map[string]string{}
	for id, e := range h.Plans {
		out[id] = e.Why
	}

	return out, nil
}

// Pin prevents every plan from being applied until Release, because a person chose generation gen. It replaces a
// damaged list: the pin holds every plan of that list, and Release ends all of them.
func (s *Store) Pin(gen int, why string) error {
	if err := s.checkLocked("pin"); err != nil {
		return err
	}
	h, err := s.readHeld()
	if err != nil && !isDamaged(err) {
		return err
	}
	if h.Pin != nil && h.Pin.Gen == gen && h.Pin.Why == why && !h.isMissing {
		return nil
	}
	h.Pin = &heldEntry{Gen: gen, Why: why}

	return s.putHeld(h)
}

// Unreadable is the generation that Pinned returns if held.json cannot be read.
const Unreadable = -1

// Pinned reports whether a generation is pinned, which, and why. If the list cannot be read, Unreadable is pinned.
func (s *Store) Pinned() (gen int, why string, ok bool) {
	h, err := s.readHeld()
	switch {
	case err != nil:
		return Unreadable, DescribeDamage(err), true
	case h.Pin == nil:
		return 0, "", false
	}

	return h.Pin.Gen, h.Pin.Why, true
}

// Release ends every hold and the pin, including the hold that the verdict on a rollback would make.
func (s *Store) Release() error {
	if err := s.checkLocked("release"); err != nil {
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

	return s.replaceAnyway(s.dir, journalName, encode(j))
}

// dropHeld ends every hold and the pin durably. It leaves an empty held.json if a generation was rolled back.
func (s *Store) dropHeld() error {
	if s.hasRolledBack() {
		return s.putHeld(&held{})
	}

	isThere, err := exists(s.dir, heldName)
	if err != nil || !isThere {
		return err
	}

	if err := s.disk.remove(s.dir, heldName); err != nil {
		return err
	}

	return s.disk.sync(s.dir)
}
