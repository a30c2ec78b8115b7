package generation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// The folder with a state that was set aside, and the document about it.
const (
	asideName  = "aside"
	asideAbout = "aside.json"
)

// asideParts are moved in this order: without the journal, the generations of a mixture look whole.
var asideParts = []string{gensName, journalName, heldName}

// Aside is a state that cannot be trusted: a part of it is damaged or names a generation that is gone. Its generations,
// journal and held plans are moved into a folder, and the caller starts over: there is no generation, and the targets
// are as before prelet. One copy is kept, for people. If the document about it is damaged too, the numbers, and whether
// the targets were of two generations, are read from the copy, and a mixture is assumed if they are not in it. That the
// copy was followed is then known from the later generation alone, which is in the store, or in the next copy.
type Aside struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Why     string    `json:"why"`             // the file and its damage
	Last    int       `json:"last"`            // the highest number of a generation, which is not used again
	IsMixed bool      `json:"mixed,omitempty"` // the targets were of two generations
	Moving  bool      `json:"moving,omitempty"`
	// IsFollowed is set once a generation was put in place: the targets are its own, and if that is lost later without
	// a trace, this state is not the reason.
	IsFollowed bool `json:"followed,omitempty"`

	Path string `json:"-"` // of the copy; "": it is not yet moved, because the store is only read or cannot be written
}

// String describes the state.
func (a *Aside) String() string {
	if a.Path == "" {
		return fmt.Sprintf("the state folder cannot be trusted (%s): prelet run sets it aside and starts over", a.Why)
	}

	return fmt.Sprintf("the state folder could not be trusted (%s) and was set aside, in %s", a.Why, a.Path)
}

// DescribeNext describes a state that no generation has followed, with the next step.
func (a *Aside) DescribeNext() string {
	if a.Path == "" {
		return a.String()
	}

	return a.String() + ": prelet run starts over"
}

// FindAside returns the state that was set aside, or that has to be; nil if there is none, or if somebody removed the
// copy.
func (s *Store) FindAside() *Aside {
	if s.hidden != nil || s.dir == nil {
		return s.hidden
	}
	at := s.dir.name(asideName)
	if _, err := nodefile.Lstat(at); err != nil {
		return nil
	}

	a, err := readDocument(s, s.dir, asideAbout, decode[Aside])
	if a == nil {
		a = s.readCopy()
		a.Why = fmt.Sprintf("the reason cannot be read: %v", cmp.Or(err, error(unix.ENOENT)))
	}
	a.Path = at

	return a
}

// readCopy rebuilds the document about the copy from the copy itself.
func (s *Store) readCopy() *Aside {
	c := &Store{o: s.o, disk: &disk{unlocked: true}}
	c.dir, _ = openIn(s.dir, asideName) // else nothing is known
	defer c.Close()

	l, _ := c.listing()
	newest, isMixed, ok := c.recallCommit(l)

	return &Aside{Last: max(l.last, newest), IsMixed: isMixed || !ok || newest == 0}
}

// StartsOver returns the state that was set aside and that no generation has followed yet; nil if there is none.
func (s *Store) StartsOver() *Aside {
	if m, _, err := s.current(); err != nil || m != nil {
		return nil
	}

	if a := s.FindAside(); a != nil && !a.IsFollowed {
		return a
	}

	return nil
}

// followAside records that a generation was put in place after a state was set aside, once r is durable.
func (s *Store) followAside(r *syncRound) error {
	a := s.FindAside()
	if a == nil || a.IsFollowed || a.Path == "" {
		return nil
	}
	a.IsFollowed = true

	return s.replaceAfter(r, s.dir, asideAbout, encode(a))
}

// examine is the one check of the state, when a store is opened. A state that cannot be trusted is set aside; in a
// store that cannot be written it is hidden, as if it was. A state of a newer version is not judged.
func (s *Store) examine() {
	if s.dir == nil || s.hidden != nil || errors.Is(s.disk.frozen, ErrNewer) {
		return
	}

	if err := s.findDamage(); isDamaged(err) {
		s.distrust(err)
	}
}

// distrust sets the state aside because of a damage.
func (s *Store) distrust(damage error) {
	before := s.FindAside()
	if before != nil && before.Moving { // and was interrupted
		s.setAside(before)
		return
	}

	a := &Aside{Version: formatVersion, Time: s.o.Now().UTC(), IsMixed: s.mayBeMixed(before)}
	if file := new(fs.PathError); errors.As(damage, &file) {
		a.Why = fmt.Sprintf("%s: %v", file.Path, file.Err)
	}
	l, _ := s.listing() // what cannot be listed has no number
	a.Last = l.last
	for _, n := range append(l.done, l.staged...) { // nothing lists their temporaries any more
		s.sweepTemps(n)
	}
	if before != nil {
		a.Last = max(a.Last, before.Last)
	}
	s.setAside(a)
}

// findDamage returns why the state cannot be trusted, as a fault with fault.NeedsPerson: a digest does not match, or
// the journal, the verdicts and the generations are not those of one history. During an interrupted commit only what
// finishes it counts.
func (s *Store) findDamage() error {
	if a := s.FindAside(); a != nil && a.Moving {
		return s.stuck(a.Path, errors.New("it is being set aside"))
	}
	if _, err := statOwned(s.dir, gensName); errors.Is(err, errForeignOwner) {
		return s.stuck(s.gensPath(), err)
	}
	if err := s.openGens(); err != nil {
		return err
	}
	j, err := s.Journal()
	if err != nil {
		return err
	}
	if j.IsUnfinished() {
		_, _, err := s.findGoal(j)
		return err
	}
	h, err := s.readHeld()
	if err != nil {
		return err
	}
	l, err := s.listCommitted()
	if err != nil {
		return err
	}
	for _, n := range l.done {
		if err := s.checkIntact(n); err != nil {
			return err
		}
	}

	return s.checkHistory(j, h, l)
}

// checkHistory returns why documents that are whole are not those of one history: one of them is lost, or older.
func (s *Store) checkHistory(j *Journal, h *held, l listing) error {
	newest, last := lastOf(l.done), lastOf(l.statuses)
	if newest > 0 { // else the folder is empty or new, and not damaged
		last = max(last, s.o.InPlace)
	}
	if j != nil {
		last = max(last, j.Gen)
	}

	switch {
	case last > newest:
		return s.stuck(s.gensPath(), fmt.Errorf("generation %d is missing", last))
	case j != nil && j.Gen != newest:
		return s.stuck(s.dir.name(journalName), fmt.Errorf("it is about generation %d", j.Gen))
	case s.takesBackFirst(newest):
		const why = "the first change was interrupted, and could not be finished; the files are as before it"
		return s.stuck(s.gensPath(), errors.New(why))
	case newest == 0 && (len(h.Plans) > 0 || h.Pin != nil):
		return s.stuck(s.gensPath(), errors.New("the generations are missing"))
	case j == nil && s.hasLostVerdict(newest):
		return s.stuck(s.gensPath(), fmt.Errorf("the verdict on generation %d is missing", newest))
	}

	return nil
}

func (s *Store) gensPath() string { return s.dir.name(gensName) }

// checkIntact returns the damage of a generation: of its verdict, or of anything that it keeps.
func (s *Store) checkIntact(gen int) error {
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

// takesBackFirst reports whether a generation has taken back a commit before which there was none: then there is none
// again.
func (s *Store) takesBackFirst(gen int) bool {
	m, err := s.readManifest(gen, "")

	return err == nil && m.Parent == 0 && m.Restores != nil
}

// hasLostVerdict reports whether a generation was never judged. Without a journal that awaits it, a verdict was lost.
func (s *Store) hasLostVerdict(gen int) bool {
	m, st, err := s.readGeneration(gen)

	return err == nil && !isNewer(m.Version) && st == nil && m.Restores == nil
}

// findGoal returns how an interrupted commit ends: its generation if it can be finished, and else what takes it back.
// If neither is possible, the error is the damage of the commit.
func (s *Store) findGoal(j *Journal) (*manifest, *wayBack, error) {
	m, err := s.checkGoal(j)
	if m == nil || !isDamaged(err) {
		return m, nil, err
	}

	way, otherErr := s.findWayBack(m)
	if isTemporary(otherErr) && !isDamaged(otherErr) {
		return nil, nil, otherErr
	}
	if otherErr != nil {
		return nil, nil, err
	}

	return nil, way, nil
}

// checkGoal returns why a commit cannot be finished: its generation is lost or damaged, or a target is neither in its
// old nor in its new state. The manifest is nil if it cannot be read.
func (s *Store) checkGoal(j *Journal) (*manifest, error) {
	m, err := s.readManifest(j.Gen, j.Manifest)
	if errors.Is(err, ErrNoGeneration) {
		err = s.stuck(s.gensPath(), fmt.Errorf("generation %d is missing", j.Gen))
	}
	if err != nil {
		return nil, err
	}
	if err = s.checkIntact(j.Gen); err == nil {
		_, err = s.listOutdated(m)
	}

	return m, err
}

// wayBack restores the targets as before an interrupted commit, in a new generation that awaits a verdict. It also
// restores targets that only the interrupted commit has changed. Until the new generation is committed, the journal and
// the interrupted generation stay. A kubelet that is unhealthy as before prelet stays so.
type wayBack struct {
	p        Proposal
	c        *Comparison
	restores *int     // 0 where the state before prelet was in place; else nil
	j        *Journal // of its commit
}

// findWayBack returns the way back from an interrupted generation, if the generation before is whole, every target can
// be written, and each of their contents is kept. Before the first generation, and after a state was set aside, the
// targets were as before prelet.
func (s *Store) findWayBack(from *manifest) (*wayBack, error) {
	var before *manifest
	var st *status
	p := Proposal{}
	a := s.FindAside() // IsFollowed is set before the commit that follows has ended
	isMixture := a != nil && a.IsMixed
	var err error
	switch {
	case from.Parent != 0:
		if before, st, err = s.readGeneration(from.Parent); err == nil {
			p, err = s.proposeBefore(before)
		}
	case isMixture:
		err = s.stuck(a.Path, errors.New("what was before is a mixture"))
	}
	if err != nil {
		return nil, err
	}

	p.Above = from.Gen
	c, err := s.compareWith(p, before, st, from)
	if err != nil {
		return nil, err
	}
	way := &wayBack{p: p, c: c, j: &Journal{Phase: PhasePublish}}
	if before == nil || before.Restores != nil && *before.Restores == 0 {
		way.restores = new(int)
		way.j.From = from.Gen
		way.j.Why = "its commit was interrupted, and could not be finished"
	}
	for _, e := range way.c.Entries {
		if e.Dropped && e.Action == ActionKeep && from.touches(e.Path) {
			return nil, s.stuck(e.Path, errors.New(e.Why))
		}
	}
	for _, sha := range contentsOf(&manifest{Entries: way.c.Entries}) {
		if _, err := s.findBytes(way.c, sha); err != nil {
			return nil, err
		}
	}

	return way, nil
}

// proposeBefore returns the contents of the generation before an interrupted one. A file that it had removed for good,
// and that somebody else has made again since, is none of them.
func (s *Store) proposeBefore(before *manifest) (Proposal, error) {
	if err := s.checkIntact(before.Gen); err != nil {
		return Proposal{}, err
	}

	p, err := s.Propose(before.Gen)
	for _, e := range before.Entries {
		o, err := s.observe(e.Path)
		isMadeAgain := e.New.Kind == Absent && e.Original.Kind == Absent && err == nil && o.state.Kind != Absent
		if !e.Dropped && isMadeAgain {
			p.Targets = slices.DeleteFunc(p.Targets, func(t Target) bool { return t.Path == e.Path })
		}
	}

	return p, err
}

func (m *manifest) touches(path string) bool {
	return slices.ContainsFunc(m.Entries, func(e Entry) bool { return e.Path == path && e.HasChange() })
}

// dropTakenBack removes the generations that a commit has taken back: those between it and its parent. Their
// temporaries went when it was staged. Only a recovery calls it, which has undone by then each generation that was
// staged and never committed: nothing else lists the folders of such a one.
func (s *Store) dropTakenBack(m *manifest) error {
	l, err := s.listing()
	if err != nil {
		return err
	}
	for _, n := range slices.Concat(l.done, l.staged, l.statuses) {
		if n <= m.Parent || n >= m.Gen {
			continue
		}
		for _, suffix := range []string{"", stagedSuffix, statusSuffix} {
			if err := s.disk.remove(s.gens, itoa(n)+suffix); err != nil {
				return err
			}
		}
	}

	return nil
}

// mayBeMixed reports whether the targets may be of two generations: a commit may have been interrupted, and they are
// not those of the newest generation. If none was put in place since a state was set aside, they are as they were then.
func (s *Store) mayBeMixed(before *Aside) bool {
	l, _ := s.listing()
	newest, isMixed, ok := s.recallCommit(l)
	switch {
	case ok && newest == 0:
		return before != nil && before.IsMixed && !before.IsFollowed
	case ok:
		return isMixed
	}

	m, st, err := s.readGeneration(newest)
	if err != nil || l.last > newest || len(s.listDrift(m, st, anyTarget)) > 0 {
		return true
	}

	return slices.ContainsFunc(m.Entries, func(e Entry) bool { // dropped, and still there
		o, err := s.observe(e.Path)

		return err == nil && e.Dropped && e.HasChange() && o.state.HasContentOf(e.Old) && !o.state.Equal(e.New)
	})
}

// recallCommit returns the generation of the last commit, 0 if there was none, and whether the commit was interrupted,
// as the journal records. A store without a journal has a verdict for each generation. ok is false if the journal or
// the verdict is damaged or lost.
func (s *Store) recallCommit(l listing) (gen int, isInterrupted, ok bool) {
	j, err := s.Journal()
	if j != nil {
		return j.Gen, j.IsUnfinished(), true
	}
	gen = max(lastOf(l.done), lastOf(l.statuses))

	return gen, false, err == nil && !s.hasLostVerdict(gen)
}

// setAside moves the generations, the journal and the list of held plans into the copy's folder, in place of an earlier
// copy. Once a file was moved, an interrupted move is continued. If it fails, the state is hidden, and nothing is
// written.
func (s *Store) setAside(a *Aside) {
	s.forgetGens()
	err := s.disk.frozen
	if !s.disk.unlocked && err == nil {
		if err = s.withBallast(func() error { return s.moveAside(a) }); err == nil {
			return
		}
	}

	a.Path = ""
	s.hidden = a
	s.disk.frozen = err
}

func (s *Store) moveAside(a *Aside) error {
	if !a.Moving {
		err := s.clearAside()
		a.Moving = true
		if err == nil {
			err = s.disk.replace(&syncRound{}, s.dir, asideAbout, encode(a))
		}
		if err == nil {
			err = s.disk.mkdir(s.dir, asideName)
		}
		if err == nil || errors.Is(err, unix.EEXIST) {
			err = s.disk.sync(s.dir)
		}
		if err != nil {
			a.Moving = false
			return err
		}
	}

	to, err := openIn(s.dir, asideName)
	if err != nil {
		return err
	}
	defer to.close()
	for _, name := range asideParts {
		if isThere, err := exists(s.dir, name); err != nil || !isThere {
			continue
		}
		if err := s.disk.removeAll(to, name); err != nil { // a power cut may leave both names of a rename
			return err
		}
		err := s.disk.do(opRename, to.name(name), func() error {
			return unix.Renameat(s.dir.fd, name, to.fd, name)
		})
		if err != nil {
			return err
		}
	}
	if isShortOfSpace(to) {
		err = s.disk.removeAll(to, gensName)
	}
	if err == nil {
		err = s.disk.sync(to)
	}
	if err != nil {
		return err
	}

	a.Moving = false

	return s.disk.replace(&syncRound{}, s.dir, asideAbout, encode(a)) // and fsyncs the folder
}

// clearAside removes an earlier copy. Its folder stays, because without it nothing is set aside.
func (s *Store) clearAside() error {
	old, err := openIn(s.dir, asideName)
	if err != nil { // it is missing, or not a folder
		return s.disk.removeAll(s.dir, asideName)
	}
	defer old.close()

	for _, name := range asideParts {
		if err := s.disk.removeAll(old, name); err != nil {
			return err
		}
	}

	return nil
}

// spareSpace is the free space in bytes below which no copy is kept: the next generations may need its space.
const spareSpace = 16 << 20

// isShortOfSpace reports whether the file system has less free space than that.
func isShortOfSpace(f *folder) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(f.fd, &st)

	return err == nil && int64(st.Bavail)*st.Bsize < spareSpace
}

// forgetGens closes the folder of generations, which another process may have moved.
func (s *Store) forgetGens() {
	if s.gens != nil {
		s.gens.close()
	}
	s.gens = nil
	s.lastPack.Store(nil)
}
