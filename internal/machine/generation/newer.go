package generation

import (
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/fault"
)

// unknownFormat is the version of a document that a later version wrote and that cannot be decoded.
const unknownFormat = formatVersion + 1

func isNewer(version int) bool { return version > formatVersion }

// reportNewer returns the error of a document of a later format.
func reportNewer(version int) error {
	return fmt.Errorf("%w (format %d; this version reads up to %d)", ErrNewer, version, formatVersion)
}

// explainNewer returns the error of an invalid document, as ErrNewer if a later version wrote it.
func explainNewer(version int, err error) error {
	if !isNewer(version) {
		return err
	}

	return fmt.Errorf("%w: %w", reportNewer(version), err)
}

// Newer returns why this version must not change the node: a later version wrote the generation in place, its verdict,
// a staged generation, the journal or the list of held plans. It returns nil if none of them is newer. The store can
// still be read, as far as this version understands it, and refuses each write.
func (s *Store) Newer() error {
	path := s.findNewer()
	if path == "" {
		return nil
	}

	return NewerFault(path)
}

// NewerFault returns the fault for a change of a node with a file (path) that a later version wrote.
func NewerFault(path string) error {
	return &fault.Fault{
		Code:    fault.NewerPrelet,
		Summary: "a newer prelet made what is in place, so this one changes nothing",
		Err:     fmt.Errorf("%s was %w", path, ErrNewer),
		Next:    "install that version again; prelet explain code/newer-prelet has the way to stay with this one",
	}
}

// CheckFinished returns the fault of a commit that a newer prelet did not end: only that version can.
func (s *Store) CheckFinished() error {
	j, err := s.Journal()
	if err != nil || !j.IsUnfinished() {
		return err
	}

	return NewFault(
		fault.NeedsPerson,
		"finish", fmt.Sprintf("generation %d", j.Gen),
		errors.New("a newer prelet was interrupted while it published its files"),
		"install that version again: its next run finishes them",
	)
}

// findNewer returns the path of a file that a later version wrote; "" if there is none. An error that is not about the
// version is left to the next reader of the file.
func (s *Store) findNewer() string {
	j, err := s.Journal()
	if errors.Is(err, ErrNewer) || j != nil && isNewer(j.Version) {
		return s.dir.name(journalName)
	}
	if _, err := s.readHeld(); errors.Is(err, ErrNewer) {
		return s.dir.name(heldName)
	}

	l, err := s.listing()
	if err != nil {
		return ""
	}
	for _, n := range append(l.staged, lastOf(l.done)) {
		m, st, err := s.readGeneration(n)
		switch {
		case err != nil:
		case isNewer(m.Version):
			return s.gens.name(itoa(n))
		case st != nil && isNewer(st.Version):
			return s.gens.name(itoa(n) + statusSuffix)
		}
	}

	return ""
}

// freezeOnNewer makes the store refuse each write as long as a later version's files are in it.
func (s *Store) freezeOnNewer() {
	if s.disk.frozen != nil && !errors.Is(s.disk.frozen, ErrNewer) {
		return
	}
	s.disk.frozen = s.Newer()
}
