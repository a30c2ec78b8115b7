package generation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// reportSuperseded returns the error of a verdict on a generation that another one has replaced.
func reportSuperseded(op string, gen int, why string) error {
	const next = "read the journal again, and judge the generation that it names"
	cause := fmt.Errorf("%w: %s", ErrSuperseded, why)

	return NewFault(fault.Internal, op+" generation", itoa(gen), cause, next)
}

// checkInPlace checks that generation gen is in place, and returns its journal (nil if there is none).
func (s *Store) checkInPlace(op string, gen int) (*Journal, *manifest, *status, error) {
	j, err := s.Journal()
	if err != nil {
		return nil, nil, nil, err
	}
	if j != nil && (j.Phase != PhaseVerify || j.Gen != gen) {
		why := fmt.Sprintf("the journal is in phase %s of generation %d", j.Phase, j.Gen)
		return nil, nil, nil, reportSuperseded(op, gen, why)
	}

	m, st, err := s.current()
	if err != nil {
		return nil, nil, nil, err
	}
	if m == nil || m.Gen != gen {
		return nil, nil, nil, reportSuperseded(op, gen, "it is not in place")
	}
	return j, m, st, nil
}

// Good records that generation gen, which is in place, was judged good, keeps report (may be nil) in it as report.json,
// and ends its journal. A generation of a rollback has no journal and may be judged good as well.
func (s *Store) Good(gen int, report []byte) error {
	j, _, st, err := s.checkInPlace("judge", gen)
	if err != nil {
		return err
	}

	next := nextStatus(st)
	if report != nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, report); err != nil {
			return reportMisuse("judge", itoa(gen), "the report is not JSON: "+err.Error())
		}
		next.Report = compact.Bytes()
	}
	if st == nil || st.Status != StatusGood || !bytes.Equal(st.Report, next.Report) {
		next.Status = StatusGood
		next.Why = ""
		if err := s.putStatus(gen, next); err != nil {
			return err
		}
	}
	if j == nil {
		return nil
	}

	return s.endJournal()
}

// MarkUnhealthy records that generation gen, which a rollback made, was judged unhealthy. Then the plan before the
// rollback was not at fault and is not held, and no further verdict follows.
func (s *Store) MarkUnhealthy(gen int, why string) error {
	j, _, st, err := s.checkInPlace("judge", gen)
	if err != nil {
		return err
	}
	if j == nil || j.From == 0 {
		return reportSuperseded("judge", gen, "no rollback to it awaits a verdict")
	}

	next := nextStatus(st)
	next.Status = StatusRestored
	next.Why = why
	if err := s.putStatus(gen, next); err != nil {
		return err
	}
	if err := s.releasePlan(j.HoldPlan); err != nil {
		return err
	}

	return s.endJournal()
}

// nextStatus returns a copy of a status, to be changed and written. was may be nil.
func nextStatus(was *status) *status {
	if was == nil {
		return &status{Version: formatVersion, Status: StatusPending}
	}
	next := *was
	next.Retired = slices.Clone(was.Retired)

	return &next
}

func (s *Store) putStatus(gen int, st *status) error {
	st.Gen = gen
	st.Time = s.o.Now().UTC()

	return s.replaceAnyway(s.gens, itoa(gen)+statusSuffix, encode(st))
}

// Retire removes targets of the generation in place, such as credentials that are not needed once it is good. From then
// on they count as absent in this generation, also on a rollback to it. A target that was changed since stays. Without
// anything to remove, nothing is written.
func (s *Store) Retire(gen int, paths ...string) error {
	_, m, st, err := s.checkInPlace("retire in", gen)
	if err != nil {
		return err
	}

	next := nextStatus(st)
	before := len(next.Retired)
	var unchanged []string
	for _, p := range paths {
		i := slices.IndexFunc(m.Entries, func(e Entry) bool {
			return e.Path == p && !e.Dropped && e.New.Kind == File
		})
		if i < 0 {
			return reportMisuse("retire", p, fmt.Sprintf("generation %d has no such file", gen))
		}
		o, err := s.observe(p)
		if err != nil {
			return err
		}
		if o.state.HasContentOf(m.Entries[i].New) {
			unchanged = append(unchanged, p)
		}
		if !slices.Contains(next.Retired, p) {
			next.Retired = append(next.Retired, p)
		}
	}

	if len(next.Retired) > before {
		if err := s.putStatus(gen, next); err != nil {
			return err
		}
	}
	for _, p := range unchanged {
		if err := s.removeTarget(p); err != nil {
			return err
		}
	}

	return nil
}

func (s *Store) removeTarget(p string) error {
	dir, base, err := s.openParent(p)
	if err != nil {
		return err
	}
	defer dir.close()

	return s.removeDurably(dir, base)
}

// AddTry counts a boot that begins to verify the generation of the journal, and returns the count. It counts each boot
// once, and again after UndoTry. In a new boot CommitMono becomes the time of this call, because the clock of the
// earlier boot has ended.
func (s *Store) AddTry(bootID string) (tries int, err error) {
	j, err := s.readAwaiting("count a try")
	if err != nil {
		return 0, err
	}

	before := *j
	if j.BootID != bootID {
		j.Tries++
		j.BootID = bootID
		j.CommitMono = s.o.Mono()
	}
	others := slices.DeleteFunc(strings.Fields(j.Unjudged), func(id string) bool { return id == bootID })
	j.Unjudged = strings.Join(others, " ")
	if *j == before {
		return j.CountTries(), nil
	}

	return j.CountTries(), s.putJournal(j)
}

// UndoTry records that the verification of a boot ended without a verdict, so that the boot is not a try.
func (s *Store) UndoTry(bootID string) error {
	j, err := s.readAwaiting("undo a try")
	if err != nil {
		return err
	}
	boots := strings.Fields(j.Unjudged)
	if j.BootID != bootID || slices.Contains(boots, bootID) {
		return nil
	}
	j.Unjudged = strings.Join(append(boots, bootID), " ")

	return s.putJournal(j)
}

// readAwaiting returns the journal of a generation that awaits its verdict.
func (s *Store) readAwaiting(op string) (*Journal, error) {
	j, err := s.Journal()
	if err != nil {
		return nil, err
	}
	if j == nil || j.Phase != PhaseVerify {
		cause := fmt.Errorf("%w: no generation awaits a verdict", ErrSuperseded)
		return nil, NewFault(fault.Internal, op, s.dir.name(journalName), cause, "")
	}

	return j, nil
}

// Rollback replaces generation fromGen, which is in place, by the contents of toGen (0: as before the first generation)
// in a new generation, and returns its number. The rollback is recorded before any target changes, and Recover finishes
// it after an interruption. Targets that toGen does not have are restored as before prelet, unless they were changed
// since. With hold the plan of fromGen is held, and with the reason ByHand toGen is pinned. The caller
// prevents readers from reading the targets meanwhile. The new generation is not judged, but Good may be called for it.
// It keeps the blobs of toGen; as before the first generation, which has none, it keeps blobs.
func (s *Store) Rollback(
	fromGen, toGen int,
	why string,
	hold bool,
	blobs map[string][]byte,
) (newGen int, err error) {
	return s.rollback(&Journal{
		From: fromGen,
		To:   toGen,
		Why:  why,
	}, hold, blobs, nil)
}

// RollbackToJudge is Rollback to a generation that awaits a verdict: the journal stays in PhaseVerify with From set.
// With hold MarkUnhealthy releases the plan of fromGen. The files named in without, which other programs made while
// fromGen was in place and which toGen cannot run with, are absent in the new generation and never restored, unless
// toGen has a content for them.
func (s *Store) RollbackToJudge(
	fromGen, toGen int,
	why string,
	hold bool,
	blobs map[string][]byte,
	without ...string,
) (newGen int, err error) {
	return s.rollback(&Journal{
		From:  fromGen,
		To:    toGen,
		Why:   why,
		Judge: true,
	}, hold, blobs, without)
}

func (s *Store) rollback(
	j *Journal,
	hold bool,
	blobs map[string][]byte,
	without []string,
) (newGen int, err error) {
	toGen, from, err := s.resolveRollback(j.From, j.To)
	if err != nil {
		return 0, err
	}
	defer lockThread()()

	j.Phase = PhaseRollback
	j.To = toGen
	if hold {
		j.HoldPlan = from.PlanID
	}

	c, p, err := s.compareRollback(j.To, without)
	if err != nil {
		return 0, err
	}
	if toGen == 0 {
		p.Blobs = blobs
	}

	m, err := s.commitAnyway(c, p, &j.To, j)
	if err != nil {
		return 0, err
	}

	return m.Gen, s.publish(m, j, true)
}

// commitAnyway commits a comparison, on a full disk with the reserved space. See stage.
func (s *Store) commitAnyway(c *Comparison, p Proposal, restores *int, j *Journal) (*manifest, error) {
	var t *Txn
	err := s.withBallast(func() (err error) {
		if t, err = s.stage(c, p, restores, j); err == nil {
			err = t.commit()
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	return t.m, nil
}

// CheckRollback returns why RollbackToJudge would fail, without changing a target: it reads every content, checks every
// folder, and checks the free space. changed are the targets that a rollback would change. warnings describe the faults
// that it does not refuse: folders that other users may write, and files that get no setuid or setgid.
func (s *Store) CheckRollback(fromGen, toGen int, without ...string) (changed, warnings []string, err error) {
	toGen, _, err = s.resolveRollback(fromGen, toGen)
	if err != nil {
		return nil, nil, err
	}
	if s.disk.frozen != nil {
		return nil, nil, s.disk.frozen
	}

	c, p, err := s.compareRollback(toGen, without)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range c.Entries {
		if e.HasChange() {
			changed = append(changed, e.Path)
		}
	}

	warnings = c.WithoutSetID
	describe := func(l *nodefile.Loose) {
		text := fmt.Sprintf("%s %s, who could replace files in it: %s", l.Path, l.Why, l.Fix)
		warnings = append(warnings, text)
	}
	err = s.withBallast(func() error {
		_, err := s.preflight(c, p.Blobs, describe)
		return err
	})
	slices.Sort(warnings)

	return changed, slices.Compact(warnings), err
}

// resolveRollback checks that generation fromGen is in place and that the contents of toGen can be restored. It returns
// the generation to restore, and the manifest in place.
func (s *Store) resolveRollback(fromGen, toGen int) (to int, from *manifest, err error) {
	_, from, _, err = s.checkInPlace("roll back from", fromGen)
	if err != nil {
		return 0, nil, err
	}
	if toGen < 0 || toGen >= fromGen {
		err := NewFault(fault.Internal, "roll back to", itoa(toGen), ErrNoGeneration, nextHistory)
		return 0, nil, err
	}

	if toGen != 0 {
		m, err := s.readManifest(toGen, "")
		if err != nil {
			return 0, nil, err
		}
		if isNewer(m.Version) {
			return 0, nil, NewerFault(s.gens.name(itoa(toGen)))
		}
		// It may have restored the state before prelet, and keep no contents of a plan.
		if m.Restores != nil && *m.Restores == 0 {
			toGen = 0
		}
	}

	return toGen, from, nil
}

// compareRollback compares the contents of an earlier generation with the disk.
func (s *Store) compareRollback(to int, without []string) (*Comparison, Proposal, error) {
	var p Proposal
	var err error
	if to != 0 { // else as before prelet
		if p, err = s.Propose(to); err != nil {
			return nil, p, err
		}
	}
	for _, path := range without {
		isProposed := slices.ContainsFunc(p.Targets, func(t Target) bool {
			return t.Path == path
		})
		if !isProposed {
			p.Targets = append(p.Targets, Target{Path: path, Forget: true})
		}
	}
	c, err := s.Compare(p)

	return c, p, err
}

// Propose returns the contents of a generation as a proposal.
func (s *Store) Propose(n int) (Proposal, error) {
	m, st, err := s.readGeneration(n)
	if err != nil {
		return Proposal{}, err
	}

	p := Proposal{PlanID: m.PlanID, ContentsOf: n, Blobs: map[string][]byte{}}
	for _, q := range m.Parts {
		if q.Blob == "" {
			continue
		}
		if p.Blobs[q.Blob], err = s.Blob(n, q.Blob); err != nil {
			return Proposal{}, err
		}
	}
	for _, e := range listInPlace(m, st) {
		if e.New.IsUnreadable() { // written only once, and damaged since
			continue
		}
		t := TargetOf(e.Path, e.New, nil)
		t.CreateOnly = e.CreateOnly
		t.Secret = e.Secret
		t.xattrs = e.New.Xattrs
		if e.New.Kind == File {
			if t.Content, err = s.contentOf(n, e.New.SHA256); err != nil {
				return Proposal{}, err
			}
		}
		p.Targets = append(p.Targets, t)
	}

	return p, nil
}

// recordRollback records the verdict on the generation that a rollback leaves, which may be lost or damaged, and holds
// its plan. A rollback by hand pins the restored generation before its journal goes on: a process that is killed leaves
// both or neither.
func (s *Store) recordRollback(j *Journal) error {
	if j.Why == ByHand {
		if err := s.Pin(j.To, j.Why); err != nil {
			return err
		}
	}
	_, st, err := s.readGeneration(j.From)
	if err == nil && (st == nil || st.Status != StatusRolledBack) {
		next := nextStatus(st)
		next.Status = StatusRolledBack
		next.Why = j.Why
		if err := s.putStatus(j.From, next); err != nil {
			return err
		}
	}
	if j.HoldPlan == "" {
		return nil
	}

	return s.Hold(j.HoldPlan, j.Why)
}
