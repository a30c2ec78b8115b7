package generation

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Content returns the bytes of a file of any generation by their sha256, and looks into the newest generation first.
// The error of an unknown content is unix.ENOENT.
func (s *Store) Content(sha string) ([]byte, error) {
	l, err := s.listCommitted()
	if err != nil {
		return nil, err
	}

	for _, n := range slices.Backward(l.done) {
		if b, err := s.contentOf(n, sha); err == nil {
			return b, nil
		}
	}

	return nil, wrapIO("find content", sha, unix.ENOENT)
}

// IsPublic reports whether every user may read a file in a state of a generation, through the folders above it as they
// are now: a generation does not keep their modes.
func (s *Store) IsPublic(path string, st FileState) bool {
	const forAll = 0o444

	return st.Mode&forAll == forAll && nodefile.Root(s.o.Root).IsReachable(path)
}

// contentOf returns one content of a generation. The error of a missing content is unix.ENOENT.
func (s *Store) contentOf(n int, sha string) ([]byte, error) {
	p, err := s.pack(n)
	if err != nil {
		return nil, err
	}

	i := p.find("", sha)
	if i < 0 {
		return nil, wrapIO("find content in", s.gens.name(p.name), unix.ENOENT)
	}

	return s.readPart(p, i)
}

// contentsOf returns the checksums of the contents that a generation keeps. With them it can be published, undone and
// left, without any other generation.
func contentsOf(m *manifest) (out []string) {
	add := func(st FileState) {
		if st.Kind == File && !st.IsUnreadable() && !slices.Contains(out, st.SHA256) {
			out = append(out, st.SHA256)
		}
	}
	for _, e := range m.Entries {
		if e.Action == ActionKeep && e.Dropped {
			continue
		}
		add(e.New)
		add(e.Original)
		if e.HasChange() {
			add(e.Old)
		}
	}

	return out
}

// findBytes returns a content from the proposal, from the observed targets, or from an earlier generation.
func (s *Store) findBytes(c *Comparison, sha string) ([]byte, error) {
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
