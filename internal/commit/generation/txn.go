package generation

import (
	"errors"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Txn is one commit under way: staged by Begin, then Commit and Publish, or Abort.
type Txn struct {
	s         *Store
	m         *manifest
	sha       string // of the manifest
	note      string
	release   bool
	prints    []fingerprint // by entry, as observed; zero where there was nothing
	committed *Journal
	ended     bool
}

// Begin compares, checks and stages a proposal. When every target already is as proposed it is ErrNothing, and nothing was
// written. After any other error everything that was staged is gone again and no target was touched.
//
// Commit, Publish and Rollback do not move to another thread while they run; a caller that wants all of them on one thread
// locks it.
func (s *Store) Begin(p Proposal) (*Txn, error) {
	if err := s.mayWrite("begin"); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := s.compareFree(p, "begin")
	if err != nil {
		return nil, err
	}
	if !c.Changed && !p.Force {
		return nil, ErrNothing
	}
	return s.stageProposal(c, p)
}

// compareFree compares a proposal when no commit is in flight but one that awaits a verdict, which is superseded, or
// one that is outdated.
func (s *Store) compareFree(p Proposal, op string) (*Comparison, error) {
	j, err := s.Journal()
	if err != nil {
		return nil, err
	}
	if j != nil && j.Phase != PhaseVerify && !s.outdated(j) {
		unfinished := errors.New("another commit is not finished")

		return nil, NewFault(fault.Interrupted, op, s.dir.name(journalName), unfinished, "recover first")
	}
	return s.Compare(p)
}

// stageProposal stages what was compared, with the late blobs.
func (s *Store) stageProposal(c *Comparison, p Proposal) (*Txn, error) {
	if p.Late != nil {
		late, err := p.Late()
		if err != nil {
			return nil, err
		}
		p.Blobs = maps.Clone(p.Blobs)
		if p.Blobs == nil {
			p.Blobs = map[string][]byte{}
		}
		maps.Copy(p.Blobs, late)
		if err := checkBlobs(p.Blobs); err != nil {
			return nil, err
		}
	}
	for _, t := range p.Targets {
		if t.Kind == File {
			c.bytes[sum(t.Content)] = t.Content
		}
	}
	return s.stage(c, p, nil)
}

// stage checks and stages what was compared. restores is set when this goes back.
func (s *Store) stage(c *Comparison, p Proposal, restores *int) (*Txn, error) {
	if s.frozen != nil {
		return nil, s.frozen
	}
	var back func(*nodefile.Loose)
	if restores != nil {
		back = func(*nodefile.Loose) {} // CheckRollback has told
	}
	make, err := s.preflight(c, p.Blobs, back)
	if err != nil {
		return nil, err
	}
	l, err := s.listing()
	if err != nil {
		return nil, err
	}
	m := &manifest{
		Version: formatVersion, Gen: l.nextAbove(p.Above), Parent: c.parent, Time: s.o.Now().UTC(),
		PlanID: p.PlanID, Restores: restores, Entries: c.Entries,
	}
	m.Folders, m.Leaving = splitFolders(c, make)
	if c.adopted {
		c.adopt(m)
	}
	for _, f := range make {
		m.Making = append(m.Making, f.path)
	}
	if p.Unjudged != nil {
		m.Judged = &status{Version: formatVersion, Status: StatusGood, Time: m.Time, Report: p.Unjudged}
	}
	t := &Txn{s: s, m: m, note: p.Note, release: p.Release}
	for i := range m.Entries {
		t.prints = append(t.prints, c.seen[i].print)
	}
	if err := t.write(c, p, make); err != nil {
		_ = s.undoStaging(m)
		return nil, err
	}
	return t, nil
}

// splitFolders divides the folders that we made into those that still hold a target and those that do not.
func splitFolders(c *Comparison, made []newFolder) (stay, leave []string) {
	all := slices.Clone(c.made)
	for _, f := range made {
		all = append(all, f.path)
	}
	slices.Sort(all)
	for _, f := range slices.Compact(all) {
		used := slices.ContainsFunc(c.Entries, func(e Entry) bool {
			return e.New.Kind != Absent && (!e.Dropped || e.Action == ActionRestore) && (e.Path == f || above(f, e.Path))
		})
		if used {
			stay = append(stay, f)
		} else {
			leave = append(leave, f)
		}
	}
	return stay, leave
}

// write makes everything that a commit needs: the generation, durable, because it tells what is made next and would have to be
// removed again; then folders and temporaries. Of these only the bytes have to be durable when they are renamed: a name that
// a power cut takes is made again from the generation.
func (t *Txn) write(c *Comparison, p Proposal, make []newFolder) error {
	s := t.s
	if err := t.writeGeneration(c, p); err != nil {
		return err
	}
	if err := s.makeFolders(make); err != nil {
		return err
	}
	var r round
	defer r.close()
	for i, e := range t.m.Entries {
		if !e.changes() || e.New.Kind != File {
			continue
		}
		dir, _, err := s.tree.parent(e.Path)
		if err != nil {
			return err
		}
		b, err := s.bytesFor(c, e.New.SHA256)
		if err == nil {
			err = r.file(s.disk, dir, tempOf(t.m.Gen, i), b, &e.New)
		}
		dir.close()
		if err != nil {
			return err
		}
	}
	return r.sync(s.disk)
}

// makeFolders makes folders in the target tree, each durable before the next.
func (s *Store) makeFolders(make []newFolder) error {
	for _, f := range make {
		dir, base, err := s.tree.parent(f.path)
		if err != nil {
			return err
		}
		err = s.makeFolder(dir, base, f)
		dir.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) makeFolder(dir *folder, base string, f newFolder) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir.fd, &st); err != nil {
		return wrap(fault.CannotWrite, "stat", dir.path, err)
	}
	if f.uid == Keep {
		f.uid = int(st.Uid)
	}
	if f.gid == Keep {
		f.gid = int(st.Gid)
	}
	if err := s.disk.mkdir(dir, base, 0o700); err != nil {
		return err // also when somebody else made it just now: it is not ours to change
	}
	if f.uid != unix.Geteuid() || f.gid != unix.Getegid() || st.Mode&unix.S_ISGID != 0 {
		if err := s.disk.chownAt(dir, base, f.uid, f.gid); err != nil {
			return err
		}
	}
	if err := s.disk.chmodAt(dir, base, f.mode); err != nil { // also 0700: the folder above may hand down its setgid bit
		return err
	}
	return s.disk.sync(dir)
}

// writeGeneration writes generations/N.staged: all at once, with one fsync, and one of the folder.
func (t *Txn) writeGeneration(c *Comparison, p Proposal) error {
	s := t.s
	if err := s.openGens(); err != nil {
		return err
	}
	if s.gens == nil {
		if err := s.disk.mkdir(s.dir, gensName, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		if err := s.openGens(); err != nil {
			return err
		}
		if err := s.disk.sync(s.dir); err != nil {
			return err
		}
	}
	var parts [][]byte
	size := 0
	add := func(name, sha string, b []byte) {
		parts, size = append(parts, b), size+len(b)
		t.m.Parts = append(t.m.Parts, part{Blob: name, SHA256: sha, Size: int64(len(b))})
	}
	for _, sha := range contentsOf(t.m) {
		b, err := s.bytesFor(c, sha)
		if err != nil {
			return err
		}
		add("", sha, b)
	}
	for _, name := range sortedKeys(p.Blobs) {
		add(name, sum(p.Blobs[name]), p.Blobs[name])
	}
	head := encode(t.m)
	t.sha = sum(head)
	if t.m.Restores == nil {
		s.keepBallast(len(head) + size)
	}
	return s.disk.put(s.gens, itoa(t.m.Gen)+stagedSuffix, nil, append([][]byte{head}, parts...)...)
}

// Generation is the number that this commit has, or will have.
func (t *Txn) Generation() int { return t.m.Gen }

// Entries tells what is to happen to each target.
func (t *Txn) Entries() []Entry { return t.m.Entries }

// Abort removes what was staged. After Commit it is an error and does nothing.
func (t *Txn) Abort() error {
	if t.committed != nil {
		return NewFault(fault.Internal, "abort", t.s.o.Dir, errors.New("the commit was recorded already"), "")
	}
	if t.ended {
		return nil
	}
	if err := t.s.mayWrite("abort"); err != nil {
		return err
	}
	t.ended = true
	return t.s.undoStaging(t.m)
}

// Commit makes the decision durable: from here on there is only forward. It returns the number of the generation. Before
// that it looks whether a target changed since Begin (ErrChanged). After an error with fault.CannotWrite nothing has changed
// and what was staged is gone; with fault.Interrupted the journal could be seen, and Recover decides.
func (t *Txn) Commit() (int, error) {
	return t.m.Gen, t.commit(&Journal{Version: formatVersion, Phase: PhasePublish, Note: t.note, Release: t.release})
}

func (t *Txn) commit(j *Journal) error {
	if err := t.s.mayWrite("commit"); err != nil {
		return err
	}
	if t.ended || t.committed != nil {
		return NewFault(fault.Internal, "commit", t.s.o.Dir, errors.New("this transaction has ended"), "")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j.Gen, j.Manifest, j.CommitTime, j.CommitBoot = t.m.Gen, t.sha, t.s.o.Now().UTC(), t.s.o.BootID
	visible := false
	err := t.unchanged()
	if err == nil {
		err = t.keepHold()
	}
	if err == nil {
		err = t.s.putJournal(j, &visible)
	}
	if err == nil {
		t.committed = j
		return nil
	}
	t.ended = true
	if visible {
		return afterCommit(err)
	}
	_ = t.s.undoStaging(t.m)
	return err
}

// keepHold holds the plan that the journal holds until the verdict on a way back, if this commit puts the same contents in
// place: a file had drifted. Another plan supersedes the way back, and nobody knows then whether that plan was at fault.
func (t *Txn) keepHold() error {
	was, err := t.s.Journal()
	if err != nil || was == nil || was.HoldPlan == "" || t.release {
		return err
	}

	to, err := t.s.manifest(was.To, "")
	if err != nil || to.PlanID != t.m.PlanID { // what is damaged tells nothing
		return nil
	}

	return t.s.Hold(was.HoldPlan, was.Why)
}

// unchanged says whether every target still is the inode that was observed.
func (t *Txn) unchanged() error {
	for i, e := range t.m.Entries {
		if e.Dropped && !e.changes() {
			continue
		}
		if err := t.same(i, e); err != nil {
			return err
		}
	}
	return nil
}

func (t *Txn) same(i int, e Entry) error {
	dir, base, err := t.s.tree.parent(e.Path)
	if errors.Is(err, unix.ENOENT) && e.Old.Kind == Absent {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.close()
	p, there, err := printAt(dir, base)
	switch {
	case err != nil:
		return err
	case e.New.Kind == Dir || e.Old.Kind == Dir: // its times change with what is in it
		return nil
	case !there && e.Old.Kind == Absent:
		return nil
	case !there || p != t.prints[i]:
		return changed(e.Path)
	}
	return nil
}
