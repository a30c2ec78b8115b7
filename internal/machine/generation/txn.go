package generation

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Txn is a commit in progress: Begin stages it, then Commit and Publish, or Abort.
type Txn struct {
	s         *Store
	m         *manifest
	journal   *Journal      // of the commit; its file is staged with the generation
	prints    []fingerprint // by entry, as observed; zero if the target did not exist
	round     syncRound     // the staged files, until Commit makes them durable
	committed bool
	ended     bool
}

// Begin compares a proposal, and stages it.
func (s *Store) Begin(p Proposal) (*Txn, error) {
	c, err := s.Compare(p)
	if err != nil {
		return nil, err
	}

	return s.Stage(p, c)
}

// Stage checks and stages a proposal, which was compared since the lock was taken. If every target already is as
// proposed, and the generation in place records them so, it returns ErrNothing and writes nothing. After any other
// error everything that was staged is removed again, and no target was touched. It refuses while another commit is in
// progress, unless that one awaits a verdict and is superseded now.
//
// Commit, Publish and Rollback stay on one thread while they run. A caller that needs all of them on the same thread
// locks it.
func (s *Store) Stage(p Proposal, c *Comparison) (*Txn, error) {
	defer lockThread()()

	j, err := s.Journal()
	if err == nil && j.IsUnfinished() {
		cause := errors.New("another commit is not finished")
		err = NewFault(fault.Interrupted, "begin", s.dir.name(journalName), cause, "run prelet recover first")
	}
	if err != nil {
		return nil, err
	}
	if c.ChangesNothing(p) {
		return nil, ErrNothing
	}
	if p.Blobs, err = p.listBlobs(); err != nil {
		return nil, err
	}

	return s.stage(c, p, nil, &Journal{Phase: PhasePublish, Release: p.Release})
}

// listBlobs returns the blobs of a proposal with the late ones.
func (p Proposal) listBlobs() (map[string][]byte, error) {
	if p.Late == nil {
		return p.Blobs, nil
	}
	late, err := p.Late()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	maps.Copy(all, p.Blobs)
	maps.Copy(all, late)

	return all, checkBlobs(all)
}

// stage checks and stages a compared proposal. restores is the generation that a rollback restores, or nil. j is the
// journal of its commit.
func (s *Store) stage(c *Comparison, p Proposal, restores *int, j *Journal) (*Txn, error) {
	if s.disk.frozen != nil {
		return nil, s.disk.frozen
	}

	var ignoreLoose func(*nodefile.Loose)
	if restores != nil || p.ContentsOf != 0 {
		ignoreLoose = func(*nodefile.Loose) {} // CheckRollback has reported those of a rollback
	}
	missing, err := s.preflight(c, p.Blobs, ignoreLoose)
	if err != nil {
		return nil, err
	}
	isLeft := restores == nil && p.ContentsOf != 0 && !slices.ContainsFunc(c.Entries, Entry.HasChange)
	if isLeft && c.Changed { // all that differs stays as it is
		return nil, ErrNothing
	}
	l, err := s.listing()
	if err != nil {
		return nil, err
	}

	above := p.Above
	if a := s.FindAside(); a != nil {
		above = max(above, a.Last)
	}
	t := &Txn{s: s, journal: j}
	t.m = &manifest{
		Version:  formatVersion,
		Gen:      l.nextAbove(above),
		Parent:   c.parent,
		Time:     s.o.Now().UTC(),
		PlanID:   p.PlanID,
		Restores: restores,
		Entries:  c.Entries,
	}
	t.m.Making = missing
	making := slices.Concat(c.made, missing)
	t.m.Folders, t.m.Leaving = splitFolders(c.Entries, making)
	if p.Unjudged != nil {
		t.m.Judged = &status{
			Version: formatVersion,
			Status:  StatusGood,
			Time:    t.m.Time,
			Report:  p.Unjudged,
		}
	}
	for _, o := range c.seen {
		t.prints = append(t.prints, o.print)
	}

	if err := t.write(c, p, missing); err != nil {
		t.round.close()
		_ = s.undoStaging(t.m) // the first error matters
		return nil, err
	}

	return t, nil
}

// splitFolders divides the folders that prelet created into those that still contain a target and those that do not.
func splitFolders(entries []Entry, made []string) (used, leaving []string) {
	for _, f := range slices.Compact(slices.Sorted(slices.Values(made))) {
		isUsed := slices.ContainsFunc(entries, func(e Entry) bool {
			isManaged := !e.Dropped || e.Action == ActionRestore

			return isManaged && e.New.Kind != Absent && (e.Path == f || isAbove(f, e.Path))
		})
		if isUsed {
			used = append(used, f)
		} else {
			leaving = append(leaving, f)
		}
	}

	return used, leaving
}

// write stages a commit. First it makes the generation durable, because it lists everything that is created next and
// that would have to be removed again, and the journal with it. Then it creates folders and temporaries, which Commit
// makes durable.
func (t *Txn) write(c *Comparison, p Proposal, missing []string) error {
	_ = t.s.sweepFolders(t.m) // of a commit that a lost state folder cannot name any more
	if err := t.writeGeneration(c, p); err != nil {
		return err
	}
	if err := t.writeJournal(); err != nil {
		return err
	}
	if err := t.round.sync(t.s.disk); err != nil {
		return err
	}
	for _, p := range missing {
		if err := t.s.makeFolder(&t.round, p, planFolder(t.m.Entries, p)); err != nil {
			return err
		}
	}

	for i, e := range t.m.Entries {
		if !e.HasChange() || e.New.Kind != File {
			continue
		}
		dir, _, err := t.s.openParent(e.Path)
		if err != nil {
			return err
		}
		err = t.s.stageTarget(&t.round, t.m, dir, i)
		dir.close()
		if err != nil {
			return err
		}
	}

	return nil
}

// stageTarget makes the temporary of a target, with the content in its generation. A process that died may have left a
// part of the temporary.
func (s *Store) stageTarget(r *syncRound, m *manifest, dir *folder, i int) error {
	e := m.Entries[i]
	b, err := s.contentOf(m.Gen, e.New.SHA256)
	if err != nil {
		return err
	}
	f, err := r.write(s.disk, dir, tempName(m.Gen, i), b)
	if err != nil {
		return err
	}

	return f.setMetadata(e.New)
}

// makeFolder creates a folder in the target tree, whose name r makes durable. An error of a folder that exists already
// is returned, because another process has just created it.
func (s *Store) makeFolder(r *syncRound, p string, f FileState) error {
	dir, base, err := s.openParent(p)
	if err != nil {
		return err
	}
	dir = r.addFolder(dir)

	if err := s.disk.mkdir(dir, base); err != nil {
		return err
	}

	return s.giveFolder(r, dir, base, f)
}

// giveFolder gives a folder its owner and mode, which r makes durable. Keep is the owner of the folder above.
func (s *Store) giveFolder(r *syncRound, above *folder, base string, want FileState) error {
	f, err := openIn(above, base)
	if err != nil {
		return err
	}
	f = r.addFolder(f)

	var parent, now unix.Stat_t
	if err := cmp.Or(unix.Fstat(above.fd, &parent), unix.Fstat(f.fd, &now)); err != nil {
		return wrapIO("stat", f.path, err)
	}
	if want.UID == Keep {
		want.UID = int(parent.Uid)
	}
	if want.GID == Keep {
		want.GID = int(parent.Gid)
	}
	if want.UID != int(now.Uid) || want.GID != int(now.Gid) {
		chown := func() error { return unix.Fchown(f.fd, want.UID, want.GID) }
		if err := s.disk.do(opChown, f.path, chown); err != nil {
			return err
		}
	}

	return s.disk.chmodFolder(f, want.Mode) // also 0700: the setgid bit may be inherited
}

// writeGeneration writes generations/N.staged.
func (t *Txn) writeGeneration(c *Comparison, p Proposal) error {
	if err := t.makeGens(); err != nil {
		return err
	}

	parts := [][]byte{nil} // the manifest is the first, and lists the others
	add := func(blob, sha string, b []byte) {
		t.m.Parts = append(t.m.Parts, part{
			Blob:   blob,
			SHA256: sha,
			Size:   int64(len(b)),
		})
		parts = append(parts, b)
	}
	for _, sha := range contentsOf(t.m) {
		b, err := t.s.findBytes(c, sha)
		if err != nil {
			return err
		}
		add("", sha, b)
	}
	for _, name := range sortedKeys(p.Blobs) {
		add(name, Checksum(p.Blobs[name]), p.Blobs[name])
	}

	parts[0] = encode(t.m)
	t.journal.Manifest = Checksum(parts[0])
	_, err := t.round.write(t.s.disk, t.s.gens, itoa(t.m.Gen)+stagedSuffix, parts...)
	t.round.stay = append(t.round.stay, t.s.gens)

	return err
}

// writeJournal writes the journal under its staged name.
func (t *Txn) writeJournal() error {
	j := t.journal
	j.Version = formatVersion
	j.Gen = t.m.Gen
	j.CommitTime = t.s.o.Now().UTC()
	j.CommitBoot = t.s.o.BootID

	_, err := t.round.write(t.s.disk, t.s.dir, journalName+stagedSuffix, encode(j))

	return err
}

// makeGens opens the folder of generations, and creates it if it is missing. Before the first generation the state
// folder may be new, too, and its name not yet durable.
func (t *Txn) makeGens() error {
	s := t.s
	if t.m.Parent == 0 {
		if err := t.addAbove(); err != nil {
			return err
		}
	}
	if err := s.openGens(); err != nil || s.gens != nil {
		return err
	}
	err := s.disk.mkdir(s.dir, gensName)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	t.round.stay = append(t.round.stay, s.dir)

	return s.openGens()
}

// addAbove adds the folder above the state folder to the round. That of a mount is as it was.
func (t *Txn) addAbove() error {
	above, err := openReal(filepath.Dir(t.s.o.Dir))
	if err != nil {
		return err
	}
	var st, own unix.Stat_t
	isMount := unix.Fstat(above.fd, &st) == nil && unix.Fstat(t.s.dir.fd, &own) == nil && st.Dev != own.Dev
	if isMount {
		above.close()
		return nil
	}
	t.round.addFolder(above)

	return nil
}

// Abort removes everything that was staged. After Commit it returns an error and changes nothing.
func (t *Txn) Abort() error {
	if t.committed {
		return reportMisuse("abort", t.s.o.Dir, "the commit was recorded already")
	}
	if t.ended {
		return nil
	}
	t.ended = true
	t.round.close()

	return t.s.undoStaging(t.m)
}

// Commit makes the decision durable: from now on the commit can only be finished. It returns the number of the
// generation. Before that it checks whether a target changed since Begin (ErrChanged). After an error with
// fault.CannotWrite nothing has changed and everything that was staged is removed. After an error with
// fault.Interrupted the journal may be visible, and Recover decides.
func (t *Txn) Commit() (int, error) {
	return t.m.Gen, t.commit()
}

func (t *Txn) commit() error {
	if t.ended || t.committed {
		return reportMisuse("commit", t.s.o.Dir, "this transaction has ended")
	}
	defer lockThread()()
	defer t.round.close()

	was, err := t.s.Journal()
	if err == nil {
		err = t.checkUnchanged()
	}
	if err == nil {
		err = t.s.disk.renameOver(t.s.dir, journalName+stagedSuffix, journalName)
	}
	if err == nil {
		if err = t.recordDurably(was); fault.CodeOf(err) == fault.Interrupted {
			t.ended = true
			return err
		}
	}
	if err != nil {
		t.ended = true
		_ = t.s.undoStaging(t.m) // the first error matters

		return err
	}

	t.committed = true
	if t.m.Restores == nil {
		t.s.keepBallast(t.m) // after all that the commit writes, so that it takes no space from it
	}

	return nil
}

// recordDurably makes the journal and, in parallel, the staged files durable. No target is touched before, and Recover
// makes again from the generation any target that a power cut takes or leaves in part. If it fails, the earlier journal
// is restored, and nothing has changed.
func (t *Txn) recordDurably(was *Journal) error {
	s := t.s
	t.round.stay = append(t.round.stay, s.dir)
	err := t.round.sync(s.disk)
	if err == nil {
		return nil
	}

	undo := s.endJournal
	if was != nil {
		undo = func() error { return s.putJournal(was) }
	}
	if undo() != nil {
		return afterCommit(err)
	}

	return err
}

// checkUnchanged compares every target with the inode that was observed, without those that stay as they are.
func (t *Txn) checkUnchanged() error {
	for i, e := range t.m.Entries {
		if e.Dropped && !e.HasChange() || e.Action == ActionKeep {
			continue
		}
		if err := t.checkTarget(i, e); err != nil {
			return err
		}
	}

	return nil
}

func (t *Txn) checkTarget(i int, e Entry) error {
	look, err := t.s.look(e.Path)
	isFolder := e.New.Kind == Dir || e.Old.Kind == Dir // its times change with its content

	var now fingerprint // zero if the target does not exist
	if err == nil {
		defer look.Close()
		now = newFingerprint(&look.Stat)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if now != t.prints[i] && !isFolder {
		return refuseChanged(e.Path)
	}

	return nil
}
