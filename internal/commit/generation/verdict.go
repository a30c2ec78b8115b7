package generation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// superseded is the error of a verdict about something that is no longer so.
func (s *Store) superseded(op string, gen int, now string) error {
	return NewFault(fault.Internal, op+" generation", itoa(gen), fmt.Errorf("%w: %s", ErrSuperseded, now), "look at the journal again and begin with what it says")
}

// judged checks that gen is what is in place, and returns its journal (nil if there is none).
func (s *Store) judged(op string, gen int) (*Journal, *manifest, *status, error) {
	if err := s.mayWrite(op); err != nil {
		return nil, nil, nil, err
	}
	j, err := s.Journal()
	if err != nil {
		return nil, nil, nil, err
	}
	if j != nil && (j.Phase != PhaseVerify || j.Gen != gen) {
		return nil, nil, nil, s.superseded(op, gen, fmt.Sprintf("the journal says %s of %d", j.Phase, j.Gen))
	}
	m, st, err := s.current()
	if err != nil {
		return nil, nil, nil, err
	}
	if m == nil || m.Gen != gen {
		return nil, nil, nil, s.superseded(op, gen, "it is not in place")
	}
	if j != nil { // the end of the journal would leave one that was adopted without its name
		if err := s.unstage(gen); err != nil {
			return nil, nil, nil, err
		}
	}
	return j, m, st, nil
}

// Good records that generation gen, which is in place, was judged good, keeps report (may be nil) in it as report.json, and
// ends its journal. A generation that came by going back has no journal and may be judged good as well.
func (s *Store) Good(gen int, report []byte) error {
	j, _, st, err := s.judged("judge", gen)
	if err != nil {
		return err
	}
	next := statusAfter(st)
	if report != nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, report); err != nil {
			return NewFault(fault.Internal, "judge", itoa(gen), fmt.Errorf("its report is no JSON: %w", err), "")
		}
		next.Report = compact.Bytes()
	}
	if st == nil || st.Status != StatusGood || !bytes.Equal(st.Report, next.Report) {
		next.Status, next.Why, next.Time = StatusGood, "", s.o.Now().UTC()
		if err := s.putStatus(gen, &next); err != nil {
			return err
		}
	}
	if j == nil {
		return nil
	}
	if j.HoldPlan != "" { // before the journal ends, which holds it until then
		if err := s.Hold(j.HoldPlan, j.Why); err != nil {
			return err
		}
	}
	return s.endJournal()
}

// Ill records that generation gen, which came by going back, was judged ill: then the plan that was left is not at fault, and
// not held, and nobody judges again.
func (s *Store) Ill(gen int, why string) error {
	j, _, st, err := s.judged("judge", gen)
	if err != nil {
		return err
	}
	if j == nil || j.From == 0 {
		return s.superseded("judge", gen, "nobody awaits a verdict on going back to it")
	}
	next := statusAfter(st)
	next.Status, next.Why, next.Time = StatusRestored, why, s.o.Now().UTC()
	if err := s.putStatus(gen, &next); err != nil {
		return err
	}
	return s.endJournal()
}

// statusAfter is what a status that follows was begins with; was may be nil.
func statusAfter(was *status) status {
	next := status{Version: formatVersion, Status: StatusPending}
	if was != nil {
		next = *was
		next.Retired = slices.Clone(was.Retired)
	}
	return next
}

func (s *Store) putStatus(gen int, st *status) error {
	st.Gen = gen

	return s.putAnyway(s.gens, itoa(gen)+statusSuffix, encode(st))
}

// Retire removes targets of the generation in place within it, such as credentials that are no longer needed once it is
// good. They count as absent in this generation from then on, also when going back to it. A target that somebody changed
// since stays. Without anything to remove nothing is written.
func (s *Store) Retire(gen int, paths ...string) error {
	_, m, st, err := s.judged("retire in", gen)
	if err != nil {
		return err
	}
	next := statusAfter(st)
	next.Time = s.o.Now().UTC()
	var remove []string
	for _, p := range paths {
		i := slices.IndexFunc(m.Entries, func(e Entry) bool { return e.Path == p && !e.Dropped && e.New.Kind == File })
		if i < 0 {
			return NewFault(fault.Internal, "retire", p, fmt.Errorf("generation %d has no such file", gen), "")
		}
		o, err := s.tree.observe(p)
		if err != nil {
			return err
		}
		if o.state.sameContent(m.Entries[i].New) {
			remove = append(remove, p)
		}
		if !slices.Contains(next.Retired, p) {
			next.Retired = append(next.Retired, p)
		}
	}
	if st == nil && len(next.Retired) > 0 || st != nil && len(next.Retired) > len(st.Retired) {
		if err := s.putStatus(gen, &next); err != nil {
			return err
		}
	}
	for _, p := range remove {
		if err := s.removeTarget(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) removeTarget(p string) error {
	dir, base, err := s.tree.parent(p)
	if err != nil {
		return err
	}
	defer dir.close()
	if err := s.disk.unlink(dir, base); err != nil {
		return err
	}
	return s.disk.sync(dir)
}

// AddTry counts a boot that begins to verify what the journal holds, and returns the count. The boot that is already counted
// is not counted again. From a new boot on, CommitMono is that of this call: the old clock is gone.
func (s *Store) AddTry(bootID string) (tries int, err error) {
	if err := s.mayWrite("count a try"); err != nil {
		return 0, err
	}
	j, err := s.Journal()
	if err != nil {
		return 0, err
	}
	if j == nil || j.Phase != PhaseVerify {
		return 0, NewFault(fault.Internal, "count a try", s.dir.name(journalName), fmt.Errorf("%w: nothing awaits a verdict", ErrSuperseded), "")
	}
	if j.BootID == bootID {
		return j.Tries, nil
	}
	j.Tries++
	j.BootID, j.CommitMono = bootID, s.o.Mono()
	return j.Tries, s.putJournal(j, nil)
}

// Rollback leaves generation fromGen, which is in place, for the contents of toGen (0: as before the first generation), as a
// new generation, whose number it returns. That is recorded before anything is undone, and finished by Recover if it is
// interrupted. Targets that toGen does not have are put back as they were before prelet, unless somebody changed them.
// With hold the plan of fromGen is held as soon as it is done. The caller has made sure that nobody reads the targets
// meanwhile. The new generation is not judged: Good may be called for it.
func (s *Store) Rollback(fromGen, toGen int, why string, hold bool) (newGen int, err error) {
	return s.rollback(fromGen, toGen, why, hold, false, nil)
}

// RollbackToJudge is Rollback to a generation that awaits a verdict, as one that was published does: the journal stays, in
// PhaseVerify, with From set. With hold the plan of fromGen counts as held from now on, and is held by Good; Ill lets go of it.
// Files named in without are absent in the new generation, and never put back, unless toGen has a content for them: what somebody
// else made while fromGen was in place, and that toGen cannot live with.
func (s *Store) RollbackToJudge(fromGen, toGen int, why string, hold bool, without ...string) (newGen int, err error) {
	return s.rollback(fromGen, toGen, why, hold, true, without)
}

// CheckRollback returns why RollbackToJudge cannot do what it is asked for, without changing a target: every content is
// read, every folder looked at, and there is room. loose are folders that others may write, and that it goes through all
// the same, in words.
func (s *Store) CheckRollback(fromGen, toGen int, without ...string) (loose []string, err error) {
	toGen, _, err = s.goal(fromGen, toGen)
	if err != nil {
		return nil, err
	}
	if s.frozen != nil {
		return nil, s.frozen
	}
	c, p, err := s.compareBack(toGen, without)
	if err != nil {
		return nil, err
	}
	for _, sha := range contentsOf(&manifest{Entries: c.Entries}) {
		if _, err := s.bytesFor(c, sha); err != nil {
			return nil, err
		}
	}
	check := func() error {
		loose = nil
		_, err := s.preflight(c, p.Blobs, func(l *nodefile.Loose) {
			loose = append(loose, fmt.Sprintf("%s %s, who could replace what lies there: %s", l.Path, l.Why, l.Fix))
		})
		return err
	}
	if err = check(); errors.Is(err, unix.ENOSPC) && s.dropBallast() {
		err = check()
	}
	slices.Sort(loose)

	return slices.Compact(loose), err
}

// goal checks that generation fromGen is in place and that there is a way back from it to the contents of toGen. It returns
// to which contents, and what is in place.
func (s *Store) goal(fromGen, toGen int) (to int, from *manifest, err error) {
	_, from, st, err := s.judged("go back from", fromGen)
	if err != nil {
		return 0, nil, err
	}
	if toGen < 0 || toGen >= fromGen {
		return 0, nil, NewFault(fault.Internal, "go back to", itoa(toGen), ErrNoGeneration, "history lists those that there are")
	}
	if toGen != 0 { // one that is as before prelet keeps nothing of a plan: to go back to it is to go back to that
		to, err := s.manifest(toGen, "")
		if err != nil {
			return 0, nil, err
		}
		if to.Restores != nil && *to.Restores == 0 {
			toGen = 0
		}
	}
	if toGen == 0 {
		if err := s.knowsBefore(from, st); err != nil {
			return 0, nil, err
		}
	}
	return toGen, from, nil
}

func (s *Store) rollback(fromGen, toGen int, why string, hold, judge bool, without []string) (newGen int, err error) {
	toGen, from, err := s.goal(fromGen, toGen)
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j := &Journal{Version: formatVersion, Phase: PhaseRollback, From: fromGen, To: toGen, Why: why, Judge: judge}
	if hold {
		j.HoldPlan = from.PlanID
	}
	t, err := s.goBack(toGen, j, without)
	if fault.CodeOf(err) == fault.CannotWrite && errors.Is(err, unix.ENOSPC) && s.dropBallast() {
		t, err = s.goBack(toGen, j, without)
	}
	if err != nil {
		return 0, err
	}
	if err := s.publish(t.m, t.prints); err != nil {
		return 0, afterCommit(err)
	}
	return t.m.Gen, afterCommit(s.finishRollback(j))
}

// goBack stages and commits the contents of an earlier generation. A transaction without an error is committed.
func (s *Store) goBack(to int, j *Journal, without []string) (*Txn, error) {
	c, p, err := s.compareBack(to, without)
	if err != nil {
		return nil, err
	}
	t, err := s.stage(c, p, &to)
	if err != nil {
		return nil, err
	}
	return t, t.commit(j)
}

// compareBack compares the contents of an earlier generation with what is there.
func (s *Store) compareBack(to int, without []string) (*Comparison, Proposal, error) {
	p, err := s.proposalOf(to)
	if err != nil {
		return nil, p, err
	}
	for _, path := range without {
		if !slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Path == path }) {
			p.Targets = append(p.Targets, Target{Path: path, Mode: Keep, UID: Keep, GID: Keep, Forget: true})
		}
	}
	c, err := s.Compare(p)
	if err != nil {
		return nil, p, err
	}
	for _, t := range p.Targets {
		if t.Kind == File {
			c.bytes[sum(t.Content)] = t.Content
		}
	}
	return c, p, nil
}

// proposalOf is the proposal that brings the contents of a generation back.
func (s *Store) proposalOf(n int) (Proposal, error) {
	if n == 0 {
		return Proposal{}, nil
	}
	m, err := s.manifest(n, "")
	if err != nil {
		return Proposal{}, err
	}
	st, err := s.status(m)
	if err != nil {
		return Proposal{}, err
	}
	p := Proposal{PlanID: m.PlanID, Blobs: map[string][]byte{}}
	for _, q := range m.Parts {
		if q.Blob == "" {
			continue
		}
		if p.Blobs[q.Blob], err = s.Blob(n, q.Blob); err != nil {
			return Proposal{}, err
		}
	}
	for _, e := range live(m, st) {
		t := Target{Path: e.Path, Kind: e.New.Kind, CreateOnly: e.CreateOnly, Secret: e.Secret, Parents: true, Mode: int(e.New.Mode), UID: e.New.UID, GID: e.New.GID}
		if e.New.Kind == File {
			if t.Content, err = s.contentOf(n, e.New.SHA256); err != nil {
				return Proposal{}, err
			}
			t.xattrs = e.New.Xattrs
		}
		p.Targets = append(p.Targets, t)
	}
	return p, nil
}

// finishRollback records that going back is done.
func (s *Store) finishRollback(j *Journal) error {
	m, err := s.manifest(j.From, "")
	if err != nil {
		return err
	}
	st, err := s.status(m)
	if err != nil {
		return err
	}
	if st == nil || st.Status != StatusRolledBack {
		next := statusAfter(st)
		next.Status, next.Why, next.Time = StatusRolledBack, j.Why, s.o.Now().UTC()
		if err := s.putStatus(j.From, &next); err != nil {
			return err
		}
	}
	if j.Judge {
		return s.toVerify(j)
	}
	if j.HoldPlan != "" {
		if err := s.Hold(j.HoldPlan, j.Why); err != nil {
			return err
		}
	}
	return s.endJournal()
}
