package generation

import (
	"errors"
	"slices"
)

// Intact reads everything that a generation keeps, and what became of it. What is not as it was stored is a
// *StuckError.
func (s *Store) Intact(gen int) error {
	p, err := s.pack(gen)
	if err != nil {
		return err
	}
	if _, err := s.status(p.m); err != nil {
		return err
	}
	for i := range p.m.Parts {
		if _, err := s.read(p, i); err != nil {
			return err
		}
	}

	return nil
}

// Rotten is a generation that cannot be gone back to, because its file is not as it was stored.
type Rotten struct {
	Gen int // 0: not even the list of generations could be read
	Why error
}

// DescribeDamage says which file is damaged and how, of an error of Intact, for a sentence about something else.
func DescribeDamage(err error) string {
	var stuck *StuckError
	if errors.As(err, &stuck) {
		return stuck.Path + ": " + stuck.Why
	}

	return err.Error()
}

// LastIntact is the highest generation that was judged good, not gone back from, and is intact; false when there is
// none. With below, which is 0 for no bound, only those under that number count. rotten are those passed over, the
// highest first: they were good and are not intact, or it can no longer be read what became of them.
//
// LastGood does not read what a generation keeps, and is quick.
func (s *Store) LastIntact(below int) (gen int, rotten []Rotten, ok bool) {
	all, err := s.committed()
	if err != nil {
		return 0, []Rotten{{Why: err}}, false
	}

	for _, n := range slices.Backward(all) {
		if below > 0 && n >= below {
			continue
		}
		good, err := s.isGood(n)
		if err == nil && good {
			err = s.Intact(n)
		}
		switch {
		case err == nil && good:
			return n, rotten, true
		case err != nil && !errors.Is(err, ErrNoGeneration): // else it was collected meanwhile
			rotten = append(rotten, Rotten{Gen: n, Why: err})
		}
	}

	return 0, rotten, false
}

func (s *Store) isGood(gen int) (bool, error) {
	m, err := s.manifest(gen, "")
	if err != nil {
		return false, err
	}
	st, err := s.status(m)

	return err == nil && st != nil && st.Status == StatusGood, err
}
