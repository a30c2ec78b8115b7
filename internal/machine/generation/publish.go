package generation

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// lockThread keeps the caller on its thread until the returned function is called, so that a test which counts the
// system calls of a thread can end a run at any of them.
func lockThread() (unlock func()) {
	runtime.LockOSThread()

	return runtime.UnlockOSThread
}

// Publish puts every target in place in the order of the proposal, makes that durable, and records PhaseVerify. The
// caller prevents readers from reading the targets meanwhile. After an error the journal stays, and Recover finishes
// the commit. A fault with fault.NeedsPerson reports a target that another process changed after Commit.
func (t *Txn) Publish() error {
	if !t.committed || t.ended {
		return reportMisuse("publish", t.s.o.Dir, "nothing was committed")
	}
	defer lockThread()()

	t.ended = true

	return t.s.publish(t.m, t.journal, true)
}

// publish ends a commit: it brings every target from its old to its new state, and records that durably. It may be
// called again after any interruption. staged reports that this process staged the targets. After fault.NeedsPerson
// (see listOutdated) nothing was changed.
func (s *Store) publish(m *manifest, j *Journal, staged bool) error {
	var r syncRound
	defer r.close()

	err := s.putInPlace(&r, m, staged)
	if err == nil {
		err = s.followAside(&r)
	}
	if err == nil {
		err = s.recordCommit(j)
	}
	if err == nil {
		err = s.endCommit(&r, m, j)
	}

	return afterCommit(err)
}

// recordCommit records the changes of a commit in addition to its targets: released plans, or the verdict of a
// rollback. Until they are recorded, the journal, which ends last, has them.
func (s *Store) recordCommit(j *Journal) error {
	if j.Phase == PhaseRollback {
		return s.recordRollback(j)
	}
	if !j.Release {
		return nil
	}
	j.Release = false

	return s.dropHeld()
}

// endCommit makes r durable, records that the targets await a verdict, or ends the journal if none follows, and removes
// the staged name of the generation.
func (s *Store) endCommit(r *syncRound, m *manifest, j *Journal) error {
	isEnd := m.Judged != nil || j.Phase == PhaseRollback && !j.Judge
	if isEnd {
		if err := r.sync(s.disk); err != nil {
			return err
		}
	} else {
		j.Phase = PhaseVerify
		j.Tries = 1
		j.BootID = s.o.BootID
		if slices.ContainsFunc(m.Entries, Entry.HasChange) { // else the files existed before
			j.CommitMono = s.o.Mono()
		}
		if err := s.replaceAfter(r, s.dir, journalName, encode(j)); err != nil {
			return err
		}
	}
	if err := s.dropStagedName(m.Gen); err != nil || !isEnd {
		return err
	}

	return s.endJournal()
}

// putInPlace changes the targets. The last fsyncs are those of r.
func (s *Store) putInPlace(r *syncRound, m *manifest, staged bool) error {
	if err := s.linkCommitted(m.Gen); err != nil {
		return err
	}

	outdated, err := s.listOutdated(m)
	if err == nil && !staged {
		err = s.finishFolders(r, m)
	}
	if err != nil {
		return err
	}

	for i, e := range m.Entries {
		if !e.HasChange() {
			continue
		}
		err := s.publishTarget(r, m, i, outdated[i], staged)
		if err != nil {
			return err
		}
	}
	if err := s.removeFolders(r, m.Leaving); err != nil {
		return err
	}
	r.stay = append(r.stay, s.gens) // the process that gave the generation its name may have died before its fsync

	return nil
}

// listOutdated reports for each entry whether its target is not yet in its new state. If a target is neither in its old
// nor in its new state, it returns a fault with fault.NeedsPerson.
func (s *Store) listOutdated(m *manifest) (outdated []bool, err error) {
	outdated = make([]bool, len(m.Entries))
	for i, e := range m.Entries {
		if !e.HasChange() {
			continue
		}
		if outdated[i], err = s.isOutdatedTarget(m, e); err != nil {
			return nil, err
		}
	}

	return outdated, nil
}

// linkCommitted gives a committed generation its final name. dropStagedName removes the other name once this one is
// durable, because a power cut may take both names of a rename.
func (s *Store) linkCommitted(n int) error {
	isNamed, err := exists(s.gens, itoa(n))
	if err != nil || isNamed {
		return err
	}

	err = s.disk.link(s.gens, itoa(n)+stagedSuffix, itoa(n))
	if isAny(err, unix.EPERM, unix.ENOTSUP) { // a file system without links
		return s.disk.rename(s.gens, itoa(n)+stagedSuffix, itoa(n))
	}

	return err
}

// dropStagedName removes the staged name of a generation whose final name is durable.
func (s *Store) dropStagedName(n int) error {
	return s.disk.unlink(s.gens, itoa(n)+stagedSuffix)
}

// isTemporary reports whether the state of a target is not known after an error.
func isTemporary(err error) bool {
	return isAny(err, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO, unix.EACCES)
}

// isOutdatedTarget reports whether a target is not yet in its new state. The error of a target that is neither in its
// old nor in its new state has fault.NeedsPerson.
func (s *Store) isOutdatedTarget(m *manifest, e Entry) (bool, error) {
	o, err := s.observe(e.Path)
	if isTemporary(err) {
		return false, err
	}
	if err != nil {
		return false, s.stuckTarget(m, e, err)
	}

	now := o.state
	concernsFolder := e.Old.Kind == Dir || e.New.Kind == Dir
	isFolder := concernsFolder && (now.Kind == Dir || now.Kind == Absent)
	isReplaceable := now.IsUnreadable() && !concernsFolder
	if !isFolder && !isReplaceable && !now.HasContentOf(e.Old) && !now.HasContentOf(e.New) {
		return false, s.stuckTarget(m, e, nil)
	}

	return !now.Equal(e.New), nil
}

// stuckTarget returns the error of a target that is neither in its old nor in its new state. The next run takes the
// commit back, and keeps the present content of the target in a generation, or starts over.
func (s *Store) stuckTarget(m *manifest, e Entry, cause error) error {
	const format = "it is neither what it was before generation %d nor what that generation makes of it"
	why := fmt.Errorf(format, m.Gen)
	if cause != nil {
		why = fmt.Errorf("%w: %w", why, cause)
	}

	return s.stuck(e.Path, why)
}

// publishTarget brings one target into its new state, unless it is in it already.
func (s *Store) publishTarget(
	r *syncRound,
	m *manifest,
	i int,
	outdated, staged bool,
) error {
	e := m.Entries[i]
	dir, err := s.openTargetFolder(r, m, e, outdated)
	if errors.Is(err, unix.ENOENT) && e.New.Kind == Absent {
		return nil // removed with its folder
	}
	if err != nil {
		return err
	}

	// Also without a change: the process that made the change may have died before its fsync.
	dir = r.addFolder(dir)

	base := path.Base(e.Path)
	switch {
	case !outdated:
		return s.disk.unlink(dir, tempName(m.Gen, i))
	case e.New.Kind == File:
		if !staged {
			if err := s.stageAgain(m, dir, i); err != nil {
				return err
			}
		}
		return s.disk.rename(dir, tempName(m.Gen, i), base)
	case e.New.Kind == Dir:
		return s.publishFolder(r, dir, base, e.New)
	case e.Old.Kind == Dir:
		return s.disk.rmdir(dir, base)
	}

	return s.disk.unlink(dir, base)
}

// openTargetFolder opens the folder of a target. If the target is outdated and the folder was removed since, it creates
// the folder again, provided that prelet created it before.
func (s *Store) openTargetFolder(r *syncRound, m *manifest, e Entry, outdated bool) (*folder, error) {
	dir, _, err := s.openParent(e.Path)
	if !errors.Is(err, unix.ENOENT) || e.New.Kind == Absent || !outdated {
		return dir, err
	}

	above, missing, err := s.lookAbove(e.Path)
	if err != nil {
		return nil, err
	}
	above.Close()

	for _, d := range missing {
		if !slices.Contains(m.Folders, d) {
			return nil, wrapIO("open", d, unix.ENOENT)
		}
		if err := s.makeFolder(r, d, planFolder(m.Entries, d)); err != nil {
			return nil, err
		}
	}
	dir, _, err = s.openParent(e.Path)

	return dir, err
}

// stageAgain makes the temporary of a target durable after a crash, which may have taken it or a part of it.
func (s *Store) stageAgain(m *manifest, dir *folder, i int) error {
	var r syncRound
	defer r.close()
	if err := s.stageTarget(&r, m, dir, i); err != nil {
		return err
	}

	return r.sync(s.disk)
}

// finishFolders gives the folders that this commit has made above its targets their owner and mode: a process may have
// died between mkdir and that. Those of earlier generations stay as they are.
func (s *Store) finishFolders(r *syncRound, m *manifest) error {
	var before []string
	if parent, err := s.readManifest(m.Parent, ""); err == nil {
		before = parent.Folders
	}

	for _, p := range m.Folders {
		if slices.Contains(before, p) || findFolder(m.Entries, p) != nil {
			continue
		}
		o, err := s.observe(p)
		if err != nil {
			return err
		}
		if o.state.Kind != Dir || o.state.Mode&0o777 != 0o700 {
			continue
		}

		dir, base, err := s.openParent(p)
		if err != nil {
			return err
		}
		if err := s.giveFolder(r, r.addFolder(dir), base, planFolder(m.Entries, p)); err != nil {
			return err
		}
	}

	return nil
}

// publishFolder gives a folder its owner and mode. Staging has created it; it is created here only if it was removed
// since.
func (s *Store) publishFolder(r *syncRound, dir *folder, base string, want FileState) error {
	isThere, err := exists(dir, base)
	if err == nil && !isThere {
		err = s.disk.mkdir(dir, base)
	}
	if err != nil {
		return err
	}

	return s.giveFolder(r, dir, base, want)
}

// removeFolders removes folders that prelet created, the deepest first. A folder that is not empty stays.
func (s *Store) removeFolders(r *syncRound, list []string) error {
	for _, p := range slices.Backward(slices.Sorted(slices.Values(list))) {
		dir, base, err := s.openParent(p)
		if isNoFolder(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.disk.rmdir(r.addFolder(dir), base); err != nil {
			return err
		}
	}

	return nil
}
