package generation

import (
	"errors"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	manifestName = "manifest.json"
	statusName   = "status.json"
	reportName   = "report.json"
	stagingName  = "staging.json"
	oldName      = "old"
	newName      = "new"
)

// numbers are the folders in generations/, ascending, whatever is in them.
func (s *Store) numbers() ([]int, error) {
	if err := s.openGens(); err != nil || s.gens == nil {
		return nil, err
	}
	all, err := names(s.gens)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, n := range all {
		if i, err := strconv.Atoi(n); err == nil && i > 0 && strconv.Itoa(i) == n {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out, nil
}

// committed are the generations that were committed and are still kept, ascending.
func (s *Store) committed() ([]int, error) {
	if s.dir == nil {
		return nil, nil
	}
	j, err := s.Journal()
	if err != nil {
		return nil, err
	}
	st, err := s.staging()
	if err != nil {
		return nil, err
	}
	all, err := s.numbers()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(n int) bool {
		if st != nil && n == st.Gen && (j == nil || j.Gen != n) {
			return true
		}
		return !s.has(n, manifestName) // what Collect did not finish
	}), nil
}

func (s *Store) has(n int, base string) bool {
	var st unix.Stat_t
	return unix.Fstatat(s.gens.fd, strconv.Itoa(n)+"/"+base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func (s *Store) staging() (*staging, error) {
	st, _, err := readDocument(s.dir, stagingName,
		"remove files named .prelet-*.tmp beside the targets, then move it aside", parseStaging)
	return st, err
}

// manifest reads one generation. want, if not empty, is the sha256 that the manifest must have.
func (s *Store) manifest(n int, want string) (*manifest, error) {
	dir, err := s.gen(n)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	const hint = "restore the state folder from a backup, or bring the targets in place by hand and move the state folder aside"
	m, b, err := readDocument(dir, manifestName, hint, parseManifest)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, &StuckError{Path: dir.name(manifestName), Why: "it is missing", Hint: hint}
	case m.Gen != n || want != "" && sum(b) != want:
		return nil, &StuckError{Path: dir.name(manifestName), Why: "it is not the one that was committed", Hint: hint}
	}
	return m, nil
}

// status reads what became of a generation; nil when nothing was recorded.
func (s *Store) status(n int) (*status, error) {
	dir, err := s.gen(n)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	st, _, err := readDocument(dir, statusName, "move it aside: the generation then counts as not judged", parseStatus)
	return st, err
}

// current is the generation in place; nil when there never was one.
func (s *Store) current() (*manifest, *status, error) {
	all, err := s.committed()
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	n := all[len(all)-1]
	m, err := s.manifest(n, "")
	if err != nil {
		return nil, nil, err
	}
	st, err := s.status(n)
	return m, st, err
}

// Current is the generation in place: the newest that was committed. Nil when there never was one.
func (s *Store) Current() (*Info, error) {
	m, st, err := s.current()
	if err != nil || m == nil {
		return nil, err
	}
	i := infoOf(m, st, true)
	return &i, nil
}

// Original is what a target of the generation in place was before the first generation that had it, with the content of a
// file. ok is false when the generation in place does not have it: then it is as it always was.
func (s *Store) Original(p string) (st State, content []byte, ok bool, err error) {
	m, ms, err := s.current()
	if err != nil || m == nil {
		return State{}, nil, false, err
	}
	for _, e := range live(m, ms) {
		if e.Path != p {
			continue
		}
		if e.Original.Kind == File {
			dir, err := s.gen(m.Gen)
			if err != nil {
				return State{}, nil, false, err
			}
			defer dir.close()
			if content, _, err = contentIn(dir, e.Original.SHA256); err != nil {
				return State{}, nil, false, err
			}
		}
		return e.Original, content, true, nil
	}
	return State{}, nil, false, nil
}

// Differing lists the targets of the generation in place that are not as it made them, in content, mode or owner; those
// that are written only once do not count. Nil: it is whole, or there is none.
func (s *Store) Differing() ([]string, error) {
	m, st, err := s.current()
	if err != nil || m == nil {
		return nil, err
	}
	var out []string
	for _, e := range live(m, st) {
		if e.CreateOnly {
			continue
		}
		if o, err := s.tree.observe(e.Path); err != nil || !o.state.Equal(e.New) {
			out = append(out, e.Path)
		}
	}
	return out, nil
}

// List tells all generations that are kept, ascending. One that cannot be read is in it with StatusDamaged.
func (s *Store) List() ([]Info, error) {
	all, err := s.committed()
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(all))
	for k, n := range all {
		m, err := s.manifest(n, "")
		var st *status
		if err == nil {
			st, err = s.status(n)
		}
		if errors.Is(err, ErrNoGeneration) {
			continue // collected meanwhile
		}
		if err != nil {
			out = append(out, Info{Gen: n, Status: StatusDamaged, Why: err.Error(), Restores: -1})
			continue
		}
		out = append(out, infoOf(m, st, k == len(all)-1))
	}
	return out, nil
}

func infoOf(m *manifest, st *status, newest bool) Info {
	i := Info{Gen: m.Gen, Time: m.Time, PlanID: m.PlanID, Restores: -1, Entries: m.Entries, Folders: m.Folders}
	if m.Restores != nil {
		i.Restores = *m.Restores
	}
	switch {
	case st != nil && st.Status != StatusPending:
		i.Status, i.Why = st.Status, st.Why
	case m.Restores != nil:
		i.Status = StatusRestored
	case newest:
		i.Status = StatusPending
	default:
		i.Status = StatusSuperseded
	}
	return i
}

// LastGood is the highest generation that was judged good and not gone back from. False when there is none.
func (s *Store) LastGood() (int, bool) {
	all, err := s.committed()
	if err != nil {
		return 0, false
	}
	for _, n := range slices.Backward(all) {
		if st, err := s.status(n); err == nil && st != nil && st.Status == StatusGood {
			if _, err := s.manifest(n, ""); err == nil {
				return n, true
			}
		}
	}
	return 0, false
}

// Blob reads what a generation keeps by name: the proposal's blobs, or report.json.
func (s *Store) Blob(gen int, name string) ([]byte, error) {
	if !isBlob(name) {
		return nil, &Error{Op: "read", Path: name, Err: errors.New("no generation keeps a blob of this name"), Exit: ExitInternal}
	}
	dir, err := s.gen(gen)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	return readFile(dir, name)
}
