package generation

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Content finds the bytes of a file of any generation by their sha256, newest generation first. The error of a content that
// nobody has is unix.ENOENT.
func (s *Store) Content(sha string) ([]byte, error) {
	all, err := s.committed()
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(all) {
		if b, err := s.contentOf(n, sha); err == nil {
			return b, nil
		}
	}
	return nil, wrap(fault.CannotWrite, "find content", sha, unix.ENOENT)
}

// contentsOf lists the contents that a generation keeps, so that it can be put in place, undone, and left for good without
// any other.
func contentsOf(m *manifest) (want []string) {
	add := func(st State) {
		if st.Kind == File && !slices.Contains(want, st.SHA256) {
			want = append(want, st.SHA256)
		}
	}
	for _, e := range m.Entries {
		if e.Action == ActionKeep && e.Dropped {
			continue
		}
		add(e.New)
		add(e.Original)
		if e.changes() {
			add(e.Old)
		}
	}
	return want
}

// bytesFor finds a content in the proposal, on disk as observed, or in an earlier generation.
func (s *Store) bytesFor(c *Comparison, sha string) ([]byte, error) {
	if b, ok := c.bytes[sha]; ok {
		return b, nil
	}
	for _, o := range c.seen {
		if o.state.Kind == File && o.state.SHA256 == sha {
			return o.content, nil
		}
	}
	return s.Content(sha)
}
