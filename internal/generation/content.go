package generation

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// Content finds the bytes of a file of any generation by their sha256, newest generation first. The error of a content that
// nobody has is unix.ENOENT.
func (s *Store) Content(sha string) ([]byte, error) {
	all, err := s.committed()
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(all) {
		dir, err := s.gen(n)
		if err != nil {
			continue
		}
		b, _, err := contentIn(dir, sha)
		dir.close()
		if err == nil {
			return b, nil
		}
	}
	return nil, wrap(ExitCannotWrite, "find content", sha, unix.ENOENT)
}

// contentIn reads one content of a generation's folder and says in which sub-folder it was. Bytes that do not have the sum
// that names them are an error.
func contentIn(gen *folder, sha string) (b []byte, sub string, err error) {
	if !isSHA(sha) {
		return nil, "", &Error{Op: "find content", Path: sha, Err: errors.New("it is no sha256"), Exit: ExitInternal}
	}
	err = wrap(ExitCannotWrite, "find content in", gen.name(sha), unix.ENOENT)
	for _, sub := range []string{newName, oldName} {
		b, miss := contentAt(gen, sub, sha)
		if miss == nil {
			return b, sub, nil
		}
		if !errors.Is(miss, unix.ENOENT) {
			err = miss
		}
	}
	return nil, "", err
}

func contentAt(gen *folder, sub, sha string) ([]byte, error) {
	dir, err := openIn(gen, sub)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	b, err := readFile(dir, sha)
	if err == nil && sum(b) != sha {
		err = &StuckError{Path: dir.name(sha), Why: "its bytes are no longer those that were stored", Hint: "go back to another generation, or restore the state folder from a backup"}
	}
	return b, err
}

// contentsOf lists the contents that a generation keeps, so that it can be put in place, undone, and left for good without
// any other; and says which of them are its own new ones.
func contentsOf(m *manifest) (inNew map[string]bool, want []string) {
	inNew = map[string]bool{}
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
		if e.New.Kind == File {
			inNew[e.New.SHA256] = true
		}
		if e.changes() {
			add(e.Old)
		}
	}
	return inNew, want
}

// store puts one content into a generation: as a link to that of an earlier generation if it has it, else as a new file.
func (s *Store) store(r *round, c *Comparison, sources []int, to *folder, sha string) error {
	for _, n := range sources {
		if n == 0 {
			continue
		}
		linked, err := s.linkFrom(n, to, sha)
		if linked || err != nil {
			return err
		}
	}
	b, err := s.bytesFor(c, sha)
	if err != nil {
		return err
	}
	return r.file(s.disk, to, sha, b, nil)
}

// linkFrom links a content out of generation n; false when it is not there whole, or this file system has no links.
func (s *Store) linkFrom(n int, to *folder, sha string) (bool, error) {
	gen, err := s.gen(n)
	if err != nil {
		return false, err
	}
	defer gen.close()
	_, sub, err := contentIn(gen, sha)
	if err != nil {
		return false, nil
	}
	from, err := openIn(gen, sub)
	if err != nil {
		return false, err
	}
	defer from.close()
	err = s.disk.link(from, sha, to, sha)
	if errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	return err == nil, err
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
