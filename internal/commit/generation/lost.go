package generation

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Lost returns why it is not known which targets prelet wrote: the generation in place is damaged, or it is missing
// although something else of a run is there, such as one of the other files of the state folder. It returns "" if they
// are known, or if there was no run. Another error is that of Current.
func (s *Store) Lost(others ...string) (why string, err error) {
	m, _, err := s.current()
	var stuck *StuckError
	switch {
	case errors.As(err, &stuck) && !errors.Is(err, ErrNewer):
		return DescribeDamage(err), nil
	case err != nil || s.dir == nil:
		return "", err
	case m == nil:
		return s.findTrace(others), nil
	}

	l, err := s.listing()
	newest := m.Gen
	for _, n := range l.asides {
		newest = max(newest, n)
	}
	if n := len(l.statuses); n > 0 {
		newest = max(newest, l.statuses[n-1])
	}
	if newest > m.Gen {
		why = fmt.Sprintf("generation %d, which was in place, is missing", newest)
	}

	return why, err
}

// findTrace returns that there is no generation although a run left a file; "" if none did.
func (s *Store) findTrace(others []string) string {
	for _, name := range slices.Concat([]string{gensName, lockName, journalName, heldName}, others) {
		var st unix.Stat_t
		if unix.Fstatat(s.dir.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return fmt.Sprintf("there is no generation, although %s shows that prelet has run", s.dir.name(name))
		}
	}

	return ""
}

// ListWritten returns the targets of all generations whose manifests can be read, also of those that were prepared
// only. Each path has the entry of the newest.
func (s *Store) ListWritten() (out []Entry) {
	l, _ := s.listing() // what cannot be listed is not known either
	numbers := slices.Concat(l.done, l.staged)
	slices.Sort(numbers)
	isListed := map[string]bool{}
	for _, n := range slices.Backward(slices.Compact(numbers)) {
		p, err := s.pack(n)
		if err != nil {
			continue
		}
		for _, e := range p.m.Entries {
			if !isListed[e.Path] {
				isListed[e.Path] = true
				out = append(out, e)
			}
		}
	}

	return out
}
