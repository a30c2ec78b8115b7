package generation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

const (
	statusSuffix = ".status.json"
	reportName   = "report.json"
)

// listing is what lies in the folder of generations, each ascending.
type listing struct {
	done     []int // N: committed, unless the journal says otherwise
	staged   []int // N.staged: made ready for a commit
	statuses []int // N.status.json
	temps    []string
	asides   map[string]int // what a person has moved aside as we said, by name: the generation
	last     int            // the highest number that any name has
}

// listing reads the names in the folder of generations. What is none of ours is passed over, and so is what another user has
// put there under such a name, as if it were not there.
func (s *Store) listing() (l listing, err error) {
	if err := s.openGens(); err != nil || s.gens == nil {
		return l, err
	}
	all, err := names(s.gens)
	if errors.Is(err, unix.ENOENT) { // the folder was removed after it was opened
		return l, nil
	}
	if err != nil {
		return l, err
	}
	for _, n := range all {
		stem, suffix, _ := strings.Cut(n, ".")
		i, err := strconv.Atoi(stem)
		if err != nil || i < 1 || itoa(i) != stem {
			continue
		}
		rest := n[len(stem):]
		if suffix == "" || rest == stagedSuffix || rest == statusSuffix {
			l.last = max(l.last, i)
			if checkOwner(s.gens, n) != nil {
				continue
			}
		}
		switch {
		case suffix == "":
			l.done = append(l.done, i)
		case rest == stagedSuffix:
			l.staged = append(l.staged, i)
		case rest == statusSuffix:
			l.statuses = append(l.statuses, i)
		case rest == stagedSuffix+tmpSuffix, rest == statusSuffix+tmpSuffix:
			l.temps = append(l.temps, n)
		case rest == asideSuffix, rest == stagedSuffix+asideSuffix, rest == statusSuffix+asideSuffix:
			if l.asides == nil {
				l.asides = map[string]int{}
			}
			l.asides[n] = i
		}
	}
	for _, list := range [][]int{l.done, l.staged, l.statuses} {
		slices.Sort(list)
	}
	return l, nil
}

// next is a number that no generation ever had.
func (l listing) next() int { return l.last + 1 }

// maxAbove bounds the number that is taken from elsewhere: what is higher is no number that prelet wrote.
const maxAbove = 1 << 30

// nextAbove is a number that no generation ever had, higher than above.
func (l listing) nextAbove(above int) int {
	if above > maxAbove {
		above = 0
	}

	return max(l.next(), above+1)
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
	l, err := s.listing()
	if err != nil {
		return nil, err
	}
	if j != nil && slices.Contains(l.staged, j.Gen) && !slices.Contains(l.done, j.Gen) { // committed, and interrupted just then
		l.done = append(l.done, j.Gen)
		slices.Sort(l.done)
	}
	return l.done, nil
}

// manifest reads the manifest of one generation. want, if not empty, is the sha256 that it must have.
func (s *Store) manifest(n int, want string) (*manifest, error) {
	p, err := s.pack(n)
	if err != nil {
		return nil, err
	}
	if want != "" && p.sha != want {
		return nil, s.stuckAside(s.gens.name(p.name), "it is not the one that was committed", nil)
	}
	return p.m, nil
}

// status reads what became of a generation; nil when nothing was recorded.
func (s *Store) status(m *manifest) (*status, error) {
	st, err := s.recordedStatus(m.Gen)
	if err != nil || st != nil || m.Judged == nil {
		return st, err
	}
	j, err := s.Journal()
	if err != nil || j != nil && j.Gen == m.Gen {
		return nil, err // not yet in place
	}
	return m.Judged, nil
}

func (s *Store) recordedStatus(gen int) (*status, error) {
	st, _, err := readDocument(s, s.gens, itoa(gen)+statusSuffix, parseStatus)
	if errors.Is(err, errOthers) {
		return nil, nil // as listing does
	}
	if err == nil && st != nil && st.Gen != 0 && st.Gen != gen {
		err = s.stuckDocument(s.gens.name(itoa(gen)+statusSuffix), fmt.Errorf("it is of generation %d", st.Gen))
	}

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
	st, err := s.status(m)
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

// Check says what of the store a run could not go on with: the journal, the manifest of the generation in place, and the
// verdict on it must be readable. Of a *StuckError a person has to be told before anything is planned on what it hides.
func (s *Store) Check() error {
	_, _, err := s.current()
	return err
}

// Original is what a target of the generation in place was before the first generation that had it, with the content of a
// file; of an adopted one, and where that content is lost, what it is now. ok is false when the generation in place does
// not have it: then it is as it always was.
func (s *Store) Original(p string) (st State, content []byte, ok bool, err error) {
	m, ms, err := s.current()
	if err != nil || m == nil {
		return State{}, nil, false, err
	}
	inPlace, lost := s.liveKnown(m, ms)
	i := slices.IndexFunc(inPlace, func(e Entry) bool { return e.Path == p })
	switch {
	case i < 0:
		return State{}, nil, false, nil
	case slices.Contains(lost, p):
		st, content, err = s.Observe(p)
	case inPlace[i].Original.Kind == File:
		st = inPlace[i].Original
		content, err = s.Content(st.SHA256)
	default:
		st = inPlace[i].Original
	}

	return st, content, err == nil, err
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
			st, err = s.status(m)
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
	i := Info{
		Gen: m.Gen, Time: m.Time, PlanID: m.PlanID, Restores: -1,
		Entries: m.Entries, Folders: m.Folders, Adopted: m.Adopted,
	}
	if m.Restores != nil {
		i.Restores = *m.Restores
	}
	if st != nil {
		i.Retired = st.Retired
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

// LastGood is the highest generation that was judged good and not gone back from. False when there is none. One whose
// manifest or status cannot be read is passed over; whether what it keeps is intact only LastIntact says.
func (s *Store) LastGood() (int, bool) {
	all, err := s.committed()
	if err != nil {
		return 0, false
	}
	for _, n := range slices.Backward(all) {
		if good, err := s.isGood(n); err == nil && good {
			return n, true
		}
	}
	return 0, false
}

// Blob reads what a generation keeps by name: the proposal's blobs, or report.json. The error of one that it does not keep is
// unix.ENOENT.
func (s *Store) Blob(gen int, name string) ([]byte, error) {
	if !blobName.MatchString(name) {
		return nil, NewFault(fault.Internal, "read", name, errors.New("no generation keeps a blob of this name"), "")
	}
	p, err := s.pack(gen)
	if err != nil {
		return nil, err
	}
	if i := p.blob(name); i >= 0 {
		return s.read(p, i)
	}
	if name == reportName {
		if st, err := s.status(p.m); err != nil || st != nil && st.Report != nil {
			return st.report(), err
		}
	}
	return nil, wrap(fault.CannotWrite, "read", s.gens.name(p.name)+": "+name, unix.ENOENT)
}

func (s *status) report() []byte {
	if s == nil {
		return nil
	}
	return s.Report
}
