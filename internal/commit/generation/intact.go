package generation

import (
	"errors"
	"slices"
)

// Intact reads everything that a generation keeps, and its verdict. Anything that differs from the bytes that were
// stored is a *StuckError.
func (s *Store) Intact(gen int) error {
	p, err := s.pack(gen)
	if err != nil {
		return err
	}
	if _, err := s.readStatus(p.m); err != nil {
		return err
	}

	for i := range p.m.Parts {
		if _, err := s.readPart(p, i); err != nil {
			return err
		}
	}

	return nil
}

// DamagedGeneration is a generation that cannot be restored, because its file is damaged.
type DamagedGeneration struct {
	Gen int // 0: the list of generations could not be read
	Why error
}

// DescribeDamage returns which file is damaged and how, for an error of Intact.
func DescribeDamage(err error) string {
	var stuck *StuckError
	if errors.As(err, &stuck) {
		return stuck.Path + ": " + stuck.Why
	}

	return err.Error()
}

// LastIntact returns the highest generation that was judged good, was not rolled back, and is intact. ok is false if
// there is none. If below is not 0, only lower generations count. damaged are the generations that were skipped, the
// highest first: they were good and are damaged, or their verdict cannot be read.
//
// LastGood is faster, because it does not read contents.
func (s *Store) LastIntact(below int) (gen int, damaged []DamagedGeneration, ok bool) {
	all, err := s.listCommitted()
	if err != nil {
		return 0, []DamagedGeneration{{Why: err}}, false
	}

	for _, n := range slices.Backward(all) {
		if below > 0 && n >= below {
			continue
		}

		good, err := s.isGood(n)
		if good {
			err = s.Intact(n)
		}
		switch {
		case err == nil && good:
			return n, damaged, true
		case err != nil && !errors.Is(err, ErrNoGeneration): // else it was collected meanwhile
			damaged = append(damaged, DamagedGeneration{Gen: n, Why: err})
		}
	}

	return 0, damaged, false
}
