package generation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	statusSuffix = ".status.json"
	reportName   = "report.json"
)

// nextHistory is the next step of an error about a generation that does not exist.
const nextHistory = "prelet history lists the generations"

// listing contains the names in the folder of generations, each list ascending.
type listing struct {
	done     []int // N: committed, unless the journal says otherwise
	staged   []int // N.staged: prepared for a commit
	statuses []int // N.status.json
	temps    []string
	last     int // the highest number of any name
}

// listing reads the names in the folder of generations. It ignores unknown names.
func (s *Store) listing() (listing, error) {
	var l listing
	if err := s.openGens(); err != nil || s.gens == nil {
		return l, err
	}

	all, err := listNames(s.gens)
	if errors.Is(err, unix.ENOENT) { // the folder was removed after it was opened
		return l, nil
	}
	if err != nil {
		return l, err
	}

	for _, name := range all {
		stem, _, _ := strings.Cut(name, ".")
		n, err := strconv.Atoi(stem)
		if err == nil && n >= 1 && n <= maxNumber && itoa(n) == stem {
			l.add(n, name, name[len(stem):])
		}
	}
	slices.Sort(l.done)
	slices.Sort(l.staged)
	slices.Sort(l.statuses)

	return l, nil
}

// add adds a name with the number n and a suffix.
func (l *listing) add(n int, name, suffix string) {
	var list *[]int
	switch suffix {
	case "":
		list = &l.done
	case stagedSuffix:
		list = &l.staged
	case statusSuffix:
		list = &l.statuses
	case stagedSuffix + tmpSuffix, statusSuffix + tmpSuffix:
		l.temps = append(l.temps, name)
		return
	default:
		return
	}

	l.last = max(l.last, n)
	*list = append(*list, n)
}

// maxNumber bounds numbers of generations: prelet has not written a higher one, so a name with one is not its own.
const maxNumber = 1 << 30

// nextAbove returns a number that no generation ever had and that is higher than above.
func (l listing) nextAbove(above int) int {
	if above > maxNumber {
		above = 0
	}

	return max(l.last, above) + 1
}

// listCommitted is listing with a generation that was committed, and interrupted at that moment.
func (s *Store) listCommitted() (listing, error) {
	j, err := s.Journal()
	if err != nil {
		return listing{}, err
	}
	l, err := s.listing()
	if j != nil && slices.Contains(l.staged, j.Gen) && !slices.Contains(l.done, j.Gen) {
		l.done = append(l.done, j.Gen)
		slices.Sort(l.done)
	}

	return l, err
}

// lastOf returns the last of some generations; 0 if there is none.
func lastOf(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}

	return numbers[len(numbers)-1]
}

// readManifest reads the manifest of a generation. want, if not empty, is the checksum that it must have.
func (s *Store) readManifest(n int, want string) (*manifest, error) {
	p, err := s.pack(n)
	if err != nil {
		return nil, err
	}
	if want != "" && p.sha != want {
		return nil, s.stuck(s.gens.name(p.name), errors.New("it is not the one that was committed"))
	}

	return p.m, nil
}

// readStatus reads the verdict on a generation; nil if none was recorded.
func (s *Store) readStatus(m *manifest) (*status, error) {
	name := itoa(m.Gen) + statusSuffix
	st, err := readDocument(s, s.gens, name, decode[status])
	if err != nil && (isNewer(m.Version) || errors.Is(err, ErrNewer)) { // only that version may judge it
		return &status{Version: unknownFormat, Gen: m.Gen, Status: StatusPending}, nil
	}
	if err == nil && st != nil && st.Gen != 0 && st.Gen != m.Gen {
		err = s.stuck(s.gens.name(name), fmt.Errorf("it belongs to generation %d", st.Gen))
	}
	if err != nil || st != nil || m.Judged == nil {
		return st, err
	}

	j, err := s.Journal()
	if err != nil || j != nil && j.Gen == m.Gen { // not yet in place
		return nil, err
	}

	return m.Judged, nil
}

// current returns the generation in place; nil if there never was one.
func (s *Store) current() (*manifest, *status, error) {
	l, err := s.listCommitted()
	newest := lastOf(l.done)
	if err != nil || newest == 0 {
		return nil, nil, err
	}

	return s.readGeneration(newest)
}

func (s *Store) readGeneration(n int) (*manifest, *status, error) {
	m, err := s.readManifest(n, "")
	if err != nil {
		return nil, nil, err
	}
	st, err := s.readStatus(m)

	return m, st, err
}

// Current returns the generation in place: the newest that was committed. It returns nil if there never was one.
func (s *Store) Current() (*Info, error) {
	m, st, err := s.current()
	if err != nil || m == nil {
		return nil, err
	}
	i := newInfo(m, st, true)

	return &i, nil
}

// Original returns the state and content of a target before the first generation that had it. ok is false if the
// generation in place does not have the target.
func (s *Store) Original(p string) (st FileState, content []byte, ok bool, err error) {
	m, ms, err := s.current()
	if err != nil || m == nil {
		return st, nil, false, err
	}
	for _, e := range listInPlace(m, ms) {
		if e.Path != p {
			continue
		}
		if e.Original.Kind == File {
			content, err = s.Content(e.Original.SHA256)
		}
		return e.Original, content, err == nil, err
	}

	return st, nil, false, nil
}

// Differing returns the targets whose content, mode or owner differ from the generation in place. Targets that are
// written only once do not count. It returns nil if nothing differs, or without a generation.
func (s *Store) Differing() (out []string, err error) {
	all, err := s.ListDrift(anyTarget)
	for _, d := range all {
		out = append(out, d.Path)
	}

	return out, err
}

func anyTarget(string) bool { return true }

// Drifted is a target that is not as the generation in place made it.
type Drifted struct {
	Path string
	Why  string // how it differs, or why it cannot be read
}

// ListDrift is Differing for some of the targets, with how each differs. The others are not read.
func (s *Store) ListDrift(isListed func(path string) bool) ([]Drifted, error) {
	m, st, err := s.current()
	if err != nil || m == nil {
		return nil, err
	}

	return s.listDrift(m, st, isListed), nil
}

func (s *Store) listDrift(m *manifest, st *status, isListed func(path string) bool) (out []Drifted) {
	for _, e := range listInPlace(m, st) {
		if e.CreateOnly || !isListed(e.Path) {
			continue
		}
		o, err := s.observe(e.Path)
		switch {
		case err != nil:
			out = append(out, Drifted{e.Path, "it cannot be compared: " + nodefile.Reason(err)})
		case !o.state.Equal(e.New):
			out = append(out, Drifted{e.Path, describeChange(e, o)})
		}
	}

	return out
}

// describeChange returns how a target differs from its generation, and when that was changed, if it is known.
func describeChange(e Entry, o observation) string {
	if o.state.Kind != Absent && o.state.Kind != e.New.Kind && e.New.Kind != Absent {
		return fmt.Sprintf("it is a %s", o.state.Kind)
	}
	why := cmp.Or(e.DescribeDrift(o.state), "it was changed")
	if o.damage != nil {
		return o.damage.Error()
	}
	if o.state.Kind == Absent {
		return why
	}

	return why + " at " + time.Unix(o.print.ctime.Unix()).UTC().Format(time.RFC3339)
}

// List returns all generations that are kept, ascending.
func (s *Store) List() ([]Info, error) {
	l, err := s.listCommitted()
	if err != nil {
		return nil, err
	}

	out := make([]Info, 0, len(l.done))
	for _, n := range l.done {
		m, st, err := s.readGeneration(n)
		if errors.Is(err, ErrNoGeneration) { // it was collected meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, newInfo(m, st, n == lastOf(l.done)))
	}

	return out, nil
}

// Info returns one of the generations of List; ok is false if it is not kept.
func (s *Store) Info(gen int) (info Info, ok bool) {
	all, err := s.List()
	i := slices.IndexFunc(all, func(g Info) bool { return g.Gen == gen })
	if err != nil || i < 0 {
		return Info{}, false
	}

	return all[i], true
}

func newInfo(m *manifest, st *status, newest bool) Info {
	i := Info{
		Gen:      m.Gen,
		Parent:   m.Parent,
		Time:     m.Time,
		PlanID:   m.PlanID,
		Restores: -1,
		Entries:  m.Entries,
		Newer:    isNewer(m.Version),
	}
	if m.Restores != nil {
		i.Restores = *m.Restores
	}
	if st != nil {
		i.Retired = st.Retired
		isOfCommit := m.Judged != nil && bytes.Equal(st.Report, m.Judged.Report)
		i.Unjudged = st.Status == StatusGood && (isOfCommit || st.Report == nil)
	}

	switch {
	case st != nil && st.Status != StatusPending:
		i.Status = st.Status
		i.Why = st.Why
	case m.Restores != nil:
		i.Status = StatusRestored
	case newest:
		i.Status = StatusPending
	default:
		i.Status = StatusSuperseded
	}

	return i
}

// LastGood returns the highest generation that was judged good and not rolled back. It is false if there is none.
func (s *Store) LastGood() (int, bool) {
	l, err := s.listCommitted()
	if err != nil {
		return 0, false
	}

	for _, n := range slices.Backward(l.done) {
		if good, err := s.isGood(n); err == nil && good {
			return n, true
		}
	}

	return 0, false
}

func (s *Store) isGood(gen int) (bool, error) {
	m, st, err := s.readGeneration(gen)

	return err == nil && !isNewer(m.Version) && st != nil && st.Status == StatusGood, err
}

// Blob returns a blob of a generation by its name: one of the proposal's blobs, or report.json. The error of a missing
// blob is unix.ENOENT.
func (s *Store) Blob(gen int, name string) ([]byte, error) {
	if !isBlobName(name) {
		return nil, reportMisuse("read", name, "invalid blob name")
	}
	p, err := s.pack(gen)
	if err != nil {
		return nil, err
	}

	if i := p.find(name, ""); i >= 0 {
		return s.readPart(p, i)
	}
	if name == reportName {
		st, err := s.readStatus(p.m)
		if err != nil {
			return nil, err
		}
		if st != nil && st.Report != nil {
			return st.Report, nil
		}
	}

	return nil, wrapIO("read", s.gens.name(p.name)+": "+name, unix.ENOENT)
}
