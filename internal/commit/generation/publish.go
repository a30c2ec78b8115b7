package generation

import (
	"bytes"
	"errors"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Publish puts every target in place, in order, makes that durable, and records PhaseVerify. The caller has made sure that
// nobody reads the targets meanwhile. After an error the journal stands, and Recover finishes; a *StuckError says that a
// target was changed by somebody after Commit.
func (t *Txn) Publish() error {
	if err := t.s.mayWrite("publish"); err != nil {
		return err
	}
	if t.committed == nil || t.ended {
		return NewFault(fault.Internal, "publish", t.s.o.Dir, errors.New("there is no commit to publish"), "")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.ended = true
	if err := t.s.publish(t.m, t.prints); err != nil {
		return afterCommit(err)
	}
	_, err := t.s.published(t.m, t.committed)
	return err
}

// published records that everything is in place: it awaits a verdict, unless nobody is going to judge. It returns the journal
// that stands.
func (s *Store) published(m *manifest, j *Journal) (*Journal, error) {
	if j.Release { // before the journal, which has released it until now
		if err := s.dropHeld(); err != nil {
			return nil, afterCommit(err)
		}

		j.Release = false
	}

	if m.Judged != nil {
		return nil, afterCommit(s.endJournal())
	}
	if err := s.toVerify(j); err != nil {
		return nil, afterCommit(err)
	}
	return j, nil
}

// toVerify records that what the journal is about awaits a verdict.
func (s *Store) toVerify(j *Journal) error {
	j.Phase, j.Tries, j.BootID, j.CommitMono = PhaseVerify, 1, s.o.BootID, s.o.Mono()

	return s.putAnyway(s.dir, journalName, encode(j))
}

// publish brings every target from its old or new state to its new one, durably. It may be called again after any
// interruption. prints, if not nil, are the targets as they were observed by this process. A target that is neither old nor
// new is a *StuckError, and then nothing is touched.
func (s *Store) publish(m *manifest, prints []fingerprint) error {
	if err := s.unstage(m.Gen); err != nil {
		return err
	}
	todo := make([]bool, len(m.Entries))
	for i, e := range m.Entries {
		if !e.changes() {
			continue
		}
		var err error
		if todo[i], err = s.needs(m, i, prints); err != nil {
			return err
		}
	}
	var r round
	defer r.close()
	for i, e := range m.Entries {
		if !e.changes() {
			continue
		}
		dir, err := s.parentAgain(m, e, todo[i])
		if errors.Is(err, unix.ENOENT) && e.New.Kind == Absent {
			continue // gone with its folder
		}
		if err != nil {
			return err
		}
		dir = r.folder(dir) // also if another process renamed it: that one may not have lived to fsync
		if todo[i] {
			err = s.place(&r, m, dir, i, prints != nil)
		} else {
			err = s.tidy(dir, tempOf(m.Gen, i))
		}
		if err != nil {
			return err
		}
	}
	if err := s.removeFolders(&r, m.Leaving); err != nil {
		return err
	}
	if err := r.sync(s.disk); err != nil {
		return err
	}
	if err := s.disk.sync(s.gens); err != nil { // also if another process gave it its name: that one may not have lived to fsync
		return err
	}
	return s.disk.unlink(s.gens, itoa(m.Gen)+stagedSuffix)
}

// unstage gives a generation that was committed its name. The other one goes when this one is durable: of a rename a power cut
// may take both.
func (s *Store) unstage(n int) error {
	if _, done, err := printAt(s.gens, itoa(n)); err != nil || done {
		return err
	}
	err := s.disk.link(s.gens, itoa(n)+stagedSuffix, itoa(n))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) { // a file system without links
		return s.disk.rename(s.gens, itoa(n)+stagedSuffix, itoa(n))
	}
	return err
}

// needs says whether a target is not yet as it shall be.
func (s *Store) needs(m *manifest, i int, prints []fingerprint) (bool, error) {
	e := m.Entries[i]
	if prints != nil && e.Old.Kind == File {
		if dir, base, err := s.tree.parent(e.Path); err == nil {
			p, there, err := printAt(dir, base)
			dir.close()
			if err == nil && there && p == prints[i] {
				return true, nil
			}
		}
	}
	o, err := s.tree.observe(e.Path)
	if err != nil {
		return false, s.stuckTarget(m, e, err)
	}
	now := o.state
	isFolder := (e.Old.Kind == Dir || e.New.Kind == Dir) && (now.Kind == Dir || now.Kind == Absent)
	if !isFolder && !now.sameContent(e.Old) && !now.sameContent(e.New) {
		return false, s.stuckTarget(m, e, nil)
	}
	return !now.Equal(e.New), nil
}

func (s *Store) stuckTarget(m *manifest, e Entry, err error) error {
	for _, passing := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO, unix.EACCES} {
		if errors.Is(err, passing) { // it could not be read, which says nothing of what it is
			return err
		}
	}

	stuck := Stuck(e.Path, "it is neither what it was nor what generation "+itoa(m.Gen)+" makes of it",
		"prelet recover tells how to put back the old or the new one", err)
	stuck.Journal = s.dir.name(journalName)
	stuck.Ways = slices.Concat(s.putBack(m.Gen, "the new", e.Path, e.New), s.putBack(m.Gen, "the old", e.Path, e.Old))

	return stuck
}

// putBack tells a person how to bring a target into a state.
func (s *Store) putBack(gen int, which, p string, st State) []Way {
	at := quoted(path.Join("/", s.o.Root, p))
	switch st.Kind {
	case File:
		line, ok := s.extract(gen, st.SHA256)
		if !ok {
			return nil
		}
		return []Way{{"put back " + which + " content", "(umask 077; " + line + " > " + at + ")"}}
	case Dir:
		return []Way{{"put back " + which + " folder", "mkdir " + at}}
	}
	return []Way{{"let it be missing, as " + which + " state is", "rm -r " + at}}
}

// quoted is a text as one word of a shell.
func quoted(s string) string {
	if s != "" && only(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@=") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// parentAgain opens the folder of a target and, if it is needed, makes it again when it is one of ours and somebody removed it.
func (s *Store) parentAgain(m *manifest, e Entry, needed bool) (*folder, error) {
	dir, _, err := s.tree.parent(e.Path)
	if !errors.Is(err, unix.ENOENT) || e.New.Kind == Absent || !needed {
		return dir, err
	}
	lack, err := s.tree.missing(e.Path)
	if err != nil {
		return nil, err
	}
	for _, d := range lack {
		if !slices.Contains(m.Folders, d) {
			return nil, wrap(fault.CannotWrite, "open", d, unix.ENOENT)
		}
		f := newFolder{path: d, mode: 0o755, uid: Keep, gid: Keep}
		for _, other := range m.Entries {
			if other.Path == d && other.New.Kind == Dir {
				f.mode, f.uid, f.gid = other.New.Mode, other.New.UID, other.New.GID
			}
		}
		if err := s.makeFolders([]newFolder{f}); err != nil {
			return nil, err
		}
	}
	dir, _, err = s.tree.parent(e.Path)
	return dir, err
}

// place brings one target into its new state. staged says that this process has staged it.
func (s *Store) place(r *round, m *manifest, dir *folder, i int, staged bool) error {
	e := m.Entries[i]
	base := path.Base(e.Path)
	switch e.New.Kind {
	case File:
		if err := s.ready(m, dir, i, staged); err != nil {
			return err
		}
		return s.disk.rename(dir, tempOf(m.Gen, i), base)
	case Dir:
		return s.placeFolder(r, dir, e)
	}
	if e.Old.Kind == Dir {
		_, err := s.disk.rmdir(dir, base)
		return err
	}
	return s.disk.unlink(dir, base)
}

// ready makes sure that the temporary of a target is what was staged. After a crash it is made again from the generation if it
// is not, and fsynced if it is: it may be of a recovery that was killed before that.
func (s *Store) ready(m *manifest, dir *folder, i int, staged bool) error {
	want, tmp := m.Entries[i].New, tempOf(m.Gen, i)
	if o, err := observeAt(dir, tmp); err == nil && o.state.Equal(want) && holds(o.state.Xattrs, want.Xattrs) && o.links == 1 {
		if staged {
			return nil
		}
		return s.syncFile(dir, tmp)
	}
	if err := s.tidy(dir, tmp); err != nil {
		return err
	}
	b, err := s.contentOf(m.Gen, want.SHA256)
	if err != nil {
		return err
	}
	f, err := s.disk.create(dir, tmp)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.write(b); err != nil {
		return err
	}
	if err := f.dress(want); err != nil {
		return err
	}
	return f.sync()
}

// holds says whether a file has all of the attributes that it shall have. What the system adds by itself is no matter.
func holds(have, want map[string][]byte) bool {
	for name, v := range want {
		if got, ok := have[name]; !ok || !bytes.Equal(got, v) {
			return false
		}
	}
	return true
}

// syncFile makes a file that somebody else wrote durable.
func (s *Store) syncFile(dir *folder, base string) error {
	fd, err := unix.Openat(dir.fd, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrap(fault.CannotWrite, "open", dir.name(base), err)
	}
	f := &folder{fd: fd, path: dir.name(base)}
	defer f.close()
	return s.disk.sync(f)
}

// tidy removes a temporary if it is there.
func (s *Store) tidy(dir *folder, tmp string) error {
	if _, there, err := printAt(dir, tmp); err != nil || !there {
		return err
	}
	return s.disk.unlink(dir, tmp)
}

// placeFolder makes a folder, or gives it its owner and mode. One that we have to make was made when the commit was staged;
// here it is only made if somebody removed it since.
func (s *Store) placeFolder(r *round, dir *folder, e Entry) error {
	base := path.Base(e.Path)
	o, err := observeAt(dir, base)
	if err != nil {
		return err
	}
	if o.state.Kind == Absent {
		return s.makeFolder(dir, base, newFolder{path: e.Path, mode: e.New.Mode, uid: e.New.UID, gid: e.New.GID})
	}
	if o.state.UID != e.New.UID || o.state.GID != e.New.GID {
		if err := s.disk.chownAt(dir, base, e.New.UID, e.New.GID); err != nil {
			return err
		}
	}
	if err := s.disk.chmodAt(dir, base, e.New.Mode); err != nil {
		return err
	}
	f, err := s.tree.open(e.Path)
	if err != nil {
		return err
	}
	r.folder(f)
	return nil
}

// removeFolders removes folders that we made, the deepest first. One that is not empty stays.
func (s *Store) removeFolders(r *round, list []string) error {
	list = slices.Clone(list)
	slices.Sort(list)
	for _, p := range slices.Backward(list) {
		dir, base, err := s.tree.parent(p)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := s.disk.rmdir(r.folder(dir), base); err != nil {
			return err
		}
	}
	return nil
}
