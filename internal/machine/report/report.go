// Package report publishes the state of a run: progress while it runs (STATUS= of the unit, journal entries), and
// status.json and metrics.prom in the run folder (/run/prelet). A Reporter collects the events of one run; Load reads
// the status of the last one, and Release and the functions Replace… change it after its end. The package must not
// decide anything, and no error of it may change the behaviour of a run. It writes these two files and their lock; the
// caller passes the journal and the notify socket.
//
// A Reporter passes each text through its caller's redactor before it is stored. The functions Replace… do not: their
// callers pass texts without secrets.
package report

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// FormatVersion is the version of status.json. A field may be added to a version; a change of meaning needs a new one.
const FormatVersion = 1

// States of a run in status.json.
const (
	Running  = "running"
	OK       = "ok"
	Degraded = "degraded" // successful, but not everything is as the site says
	Failed   = "failed"
)

// More states of an event and of a stage, in addition to OK and Failed.
const (
	Started = "started"
	Skipped = "skipped"
	Notice  = "notice" // an operator should read it; the step continues
)

// Event is an event of a stage or of a step.
type Event struct {
	Time    time.Time
	Stage   string // a stage's address, or a step of the commit: commit, gate, restart, verify, rollback
	State   string // Started, OK, Skipped, Failed, Notice
	Summary string // one line for people; may be empty
	Message string // one of the Message constants, or empty
	Unit    string // another unit, whose journal has the entry too; "" for none

	Generation int // in place from now on, also after a rollback; 0: unchanged

	Took time.Duration // of a stage whose start was not reported; 0 if it was
}

// Ids of messages that an operator may want to find or alert on: journalctl MESSAGE_ID=….
const (
	MessageHeldBack   = "837169c7318848e6b6ee5cf825982f47" // the gate is shut, and why; also for the kubelet's unit
	MessageCommitted  = "ffd6d7ef96034c68878ddb66f8c42ea0" // a generation was committed
	MessageGood       = "5b7b5b04b1a549c8b5a1e0c22328ab18" // a generation was verified
	MessageRolledBack = "dde987dc10d1435593d2e68d195234c5" // a generation failed and was rolled back
	MessageDegraded   = "5741b96c0379449b9d5cc0383356eed0" // the run continued, but not as the site says
	MessageUnknown    = "074cf6804a6f49c1841dcce0a36e85be" // no verdict could be reached
	MessageStuck      = "ae8658680df348bf9bb3c804fea2a07f" // a person is needed
	MessageEnded      = "edaca37029cd4724b63501f834de2a58" // the result of the run
	MessageChanged    = "a0cb83945cb14f31a593bcd7e5025f38" // the node has another state
	MessageStep       = "e54e65c0e71a470296b618afc3d85f5e" // every other message of a stage or a step of the commit
)

// Priorities of an entry in the journal, as in syslog(3).
const (
	priError   = 3
	priWarning = 4
	priInfo    = 6
	priDebug   = 7
)

// ReporterConfig configures a Reporter. Notify and Log may be nil.
type ReporterConfig struct {
	Dir     string           // the run folder; it exists
	BootID  string           // 32 hexadecimal digits
	Unit    string           // of this process; "" for none of prelet's
	Version string           // of prelet
	Now     func() time.Time // the clock
	// Mono returns the time since boot, on a clock that is never set; nil: as Now.
	Mono   func() time.Duration
	Redact func(string) string // removes the secrets of this run
	Notify func(string) error  // one line for systemctl status
	// Log writes an entry to the journal, with a priority of syslog(3). Its fields are PRELET_STAGE, PRELET_GENERATION,
	// MESSAGE_ID and, for the journal of another unit, OBJECT_SYSTEMD_UNIT.
	Log func(priority int, message string, fields map[string]string)

	// Continue adds to the status of an earlier process of this boot: prelet-verify adds its verdict to the report of
	// prelet.service. A status of another boot, or an unreadable one, is replaced.
	Continue bool
}

// Reporter collects the events of one run. It is safe for concurrent use.
type Reporter struct {
	o ReporterConfig

	mu      sync.Mutex
	status  Status
	began   map[string]time.Time // by stage
	created time.Time
	mono    time.Duration // at created, since boot
	written time.Time
}

// writeEvery limits how often status.json is written during a run: `status --wait` needs no more.
const writeEvery = 100 * time.Millisecond

// clockStep is how much the distance of two times changes at least if the clock was set between them.
const clockStep = 2 * time.Second

// New begins a report and writes to status.json and metrics.prom that a run is in progress. The results of the earlier
// runs of this boot stay in both. If a write fails, the Reporter can be used nevertheless.
func New(o ReporterConfig) (*Reporter, error) {
	r := &Reporter{
		o:       o,
		began:   map[string]time.Time{},
		created: o.Now(),
	}
	r.mono = time.Duration(r.created.UnixNano())
	if o.Mono != nil {
		r.mono = o.Mono()
	}
	before, err := Load(o.Dir)
	switch {
	case err == nil && before.BootID == o.BootID:
		r.status.takeOver(*before, o.Continue)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		line := "the status of the earlier run cannot be read: " + err.Error()
		r.log(priWarning, line, Event{Stage: "report"})
	}

	r.status.FormatVersion = FormatVersion
	r.status.BootID = o.BootID
	r.status.Version = o.Version
	r.status.Unit = o.Unit
	r.status.State = Running
	r.status.Code = ""
	r.status.Exit = 0
	r.status.Started = o.Now().UTC()
	r.status.Finished = nil

	err = r.write()
	if err != nil { // what an earlier run has reported is not how this one ends
		_ = os.Remove(filepath.Join(o.Dir, StatusFile))
	}

	return r, errors.Join(err, r.status.WriteMetrics(o.Dir))
}

// Event reports an event: a journal entry, a STATUS= line, and the stage's line in the status.
func (r *Reporter) Event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if e.Time.IsZero() {
		e.Time = r.o.Now()
	}
	if e.Generation != 0 {
		r.status.Generation = e.Generation
	}
	e.Summary = r.o.Redact(e.Summary)
	switch e.State {
	case Started:
		r.began[e.Stage] = e.Time
		r.status.setStage(e.Stage, Running, 0)
	case OK, Skipped, Failed:
		began, ok := r.began[e.Stage]
		if !ok {
			began = e.Time.Add(-e.Took)
		}
		took := max(0, e.Time.Sub(began))
		r.status.setStage(e.Stage, e.State, took.Milliseconds())
		if (ok || e.Took > 0) && e.State != Skipped {
			r.addSpan(Span{Kind: stageKind(e.Stage), Name: e.Stage}, began, took)
		}
	}

	r.publish(e)
	if e.Time.Sub(r.written) >= writeEvery && !r.isOvertaken() {
		r.logError(r.write())
	}
}

// Span adds a part of the run that took time.
func (r *Reporter) Span(kind, name string, began time.Time, took time.Duration) {
	r.StageSpan("", kind, name, began, took)
}

// StageSpan adds a part of a stage that took time. stage is its address, or "".
func (r *Reporter) StageSpan(stage, kind, name string, began time.Time, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.addSpan(Span{
		Kind:  kind,
		Name:  r.o.Redact(name),
		Stage: stage,
	}, began, took)
}

// addSpan adds a span to the status. Times of this process have a reading of the monotonic clock, so that their
// distance does not change when the clock is set.
func (r *Reporter) addSpan(s Span, began time.Time, took time.Duration) {
	now := r.o.Now()
	s.Boot = (r.mono + began.Sub(r.created)).Microseconds()
	s.Micros = max(0, took).Microseconds()
	sinceBoot := r.mono + now.Sub(r.created)

	const noMonotonic = 0
	r.status.addSpan(s, now.Round(noMonotonic).Add(-sinceBoot))
}

// IsOvertaken reports whether status.json belongs to another run of this boot that has ended since this one began.
func (r *Reporter) IsOvertaken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.isOvertaken()
}

// isOvertaken reports whether status.json belongs to another run that has ended and awaits no verdict. A status that
// awaits its verdict gets that of this run.
func (r *Reporter) isOvertaken() bool {
	s, err := Load(r.o.Dir)
	if err != nil || s.BootID != r.o.BootID || s.Finished == nil {
		return false
	}

	return s.Verdict != Pending && !s.Started.Equal(r.status.Started)
}

// IsLast reports whether status.json is that of this run: no other run has begun since.
func (r *Reporter) IsLast() bool {
	s, err := Load(r.o.Dir)
	if err != nil {
		return false
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	return s.BootID == r.o.BootID && s.Started.Equal(r.status.Started)
}

// NoteAfterEnd adds a note to the status of a run that has ended, unless another run has begun since.
func (r *Reporter) NoteAfterEnd(code fault.Code, summary string) error {
	if !r.IsLast() {
		return nil
	}
	r.Note(code, summary)

	return r.WriteStatus()
}

// ReplaceNote replaces the notes with a code in the status of the last run of this boot, once that has ended, by one
// with this summary; "" removes them. It is for a process that works on after the report of a run.
func ReplaceNote(dir, bootID string, code fault.Code, summary string) error {
	_, err := changeEnded(dir, bootID, func(s *Status) {
		s.Notes = without(s.Notes, code)
		if summary != "" {
			s.Notes = append(s.Notes, fault.Reason{Code: code, Summary: summary})
		}
	})

	return err
}

// PlanHeld ends the summary of a run whose plan is held.
const PlanHeld = "; the site's plan is held"

// Release replaces the reasons about held plans and a pinned generation in the status of the last run of this boot,
// once that has ended, and returns it: they are released, and the node differs from the site until the next run.
func Release(dir, bootID string) (Status, error) {
	return changeEnded(dir, bootID, func(s *Status) {
		others := without(s.Degraded, fault.Held)
		if s.Held == nil && len(others) == len(s.Degraded) {
			return
		}
		s.Held = nil
		s.Degraded = append(others, fault.Reason{
			Code:    fault.Held,
			Summary: "the site's plan is released, and not applied yet: prelet run",
		})
		s.Summary = strings.TrimSuffix(s.Summary, PlanHeld)
	})
}

// verified begins the reason that ReplaceVerified writes.
const verified = "prelet verify: "

// ReplaceVerified replaces the results of a check of the kubelet since the last run of this boot has ended, and returns
// the status: a run that was ok is degraded by them. summary is "" if the kubelet is healthy.
func ReplaceVerified(dir, bootID string, code fault.Code, summary string) (Status, error) {
	return changeEnded(dir, bootID, func(s *Status) {
		s.Degraded = slices.DeleteFunc(slices.Clone(s.Degraded), func(r fault.Reason) bool {
			return strings.HasPrefix(r.Summary, verified) || r.Code == fault.OtherMachine
		})
		s.Healthy = nil
		if summary != "" {
			s.Degraded = append(s.Degraded, fault.Reason{Code: code, Summary: verified + summary})
		} else {
			now := time.Now().UTC()
			s.Healthy = &now
		}
		if s.State != Failed {
			s.State = s.successState()
		}
	})
}

// ReplaceChecked replaces the drift that a check between boots has found, if the last run is still that of a status.
func ReplaceChecked(dir string, of *Status, c Drift) error {
	s, err := changeEnded(dir, of.BootID, func(s *Status) {
		if s.Started.Equal(of.Started) {
			s.Check = &c
		}
	})

	return errors.Join(err, s.WriteMetrics(dir))
}

// changeEnded changes the status of the last run of this boot, if that has ended, and returns it. The zero value is
// that of a run in progress, which reports by itself, or of none.
func changeEnded(dir, bootID string, change func(*Status)) (Status, error) {
	defer lock(dir)()
	s, err := Load(dir)
	if err != nil || s.BootID != bootID || s.Finished == nil {
		return Status{}, nil
	}

	was, err := s.encode()
	if err != nil {
		return *s, err
	}
	change(s)
	text, err := s.encode()
	if err != nil || bytes.Equal(was, text) {
		return *s, err
	}

	return *s, writeFile(dir, StatusFile, text)
}

// Degrade adds a reason why this run is not completely as the site wants it. The same code and summary count once.
func (r *Reporter) Degrade(code fault.Code, summary string) {
	r.addReason(&r.status.Degraded, code, summary, MessageDegraded)
}

// Note adds something about this boot that an operator should know, although nothing is wrong. The same code and
// summary count once.
func (r *Reporter) Note(code fault.Code, summary string) {
	r.addReason(&r.status.Notes, code, summary, "")
}

func (r *Reporter) addReason(
	list *[]fault.Reason,
	code fault.Code,
	summary, message string,
) {
	r.mu.Lock()
	defer r.mu.Unlock()

	reason := fault.Reason{Code: code, Summary: r.o.Redact(summary)}
	if slices.Contains(*list, reason) {
		return
	}
	*list = append(*list, reason)
	r.log(
		priWarning,
		string(reason.Code)+": "+reason.Summary,
		Event{Stage: "report", Message: message},
	)
}

// ClearDegraded removes the reasons of an earlier process of this boot with this code, which no longer apply.
func (r *Reporter) ClearDegraded(code fault.Code) {
	r.removeReasons(&r.status.Degraded, code)
}

// ClearNotes removes the notes of an earlier process of this boot with this code, which no longer apply.
func (r *Reporter) ClearNotes(code fault.Code) {
	r.removeReasons(&r.status.Notes, code)
}

func (r *Reporter) removeReasons(list *[]fault.Reason, code fault.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()

	*list = without(*list, code)
}

// without returns the reasons that do not have a code.
func without(list []fault.Reason, code fault.Code) []fault.Reason {
	return slices.DeleteFunc(slices.Clone(list), func(r fault.Reason) bool { return r.Code == code })
}

// Generation sets the generation in place.
func (r *Reporter) Generation(n int) {
	r.change(func(s *Status) { s.Generation = n })
}

// Verdict sets the verdict on the generation in place, and why.
func (r *Reporter) Verdict(verdict Verdict, why string) {
	r.change(func(s *Status) {
		s.Verdict = verdict
		s.Why = r.o.Redact(why)
	})
}

// Held sets the plan of the site that is not applied, and why. An empty plan clears it.
func (r *Reporter) Held(plan, why string) {
	r.change(func(s *Status) {
		s.Held = nil
		if plan != "" {
			s.Held = &Held{Plan: plan, Why: r.o.Redact(why)}
		}
	})
}

// HoldKubelet sets until when a hold of the site keeps the kubelet at the latest.
func (r *Reporter) HoldKubelet(until time.Time) {
	r.change(func(s *Status) { s.KubeletHeldUntil = until.UTC() })
}

// LastHold returns until when a hold kept the kubelet in the last run of this boot; the zero time if none did.
func (r *Reporter) LastHold() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.status.Last == nil {
		return time.Time{}
	}

	return r.status.Last.KubeletHeldUntil
}

func (r *Reporter) change(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()

	change(&r.status)
}

// HeldBack writes to the journal of a unit why it does not start. systemctl status and journalctl -u of that unit
// show the line, and an operator looks there first.
func (r *Reporter) HeldBack(unit, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.log(priError, "prelet holds "+unit+" back: "+why, Event{
		Stage:   "gate",
		Message: MessageHeldBack,
		Unit:    unit,
	})
}

// Finish sets the result of the run, writes it to STATUS= and the journal, and returns the status, which is to be
// written. code is that of the failure, "" for none.
func (r *Reporter) Finish(code fault.Code, summary string) Status {
	r.mu.Lock()
	defer r.mu.Unlock()

	now := r.o.Now().UTC()
	r.status.Finished = &now
	if r.o.Mono != nil {
		const noMonotonic = 0
		took := r.o.Mono() - r.mono
		wall := now.Round(noMonotonic).Sub(r.status.Started.Round(noMonotonic))
		if jump := wall - took; jump.Abs() > clockStep { // the clock was set meanwhile
			r.status.Started = now.Add(-took)
		}
	}
	r.status.Code = code
	r.status.Exit = code.Exit()
	r.status.Summary = r.o.Redact(summary)
	if last := r.status.Last; r.o.Continue && last != nil && last.Code == code {
		r.status.Unit = last.Unit // the failure is that of the earlier process
	}
	e := Event{
		Stage:   "report",
		State:   OK,
		Message: MessageEnded,
	}
	switch {
	case code != "":
		r.status.State = Failed
		e.State = Failed
	default:
		r.status.State = r.status.successState()
	}
	r.status.countResult(r.o.Continue)
	e.Summary = r.status.State + ": " + r.status.Summary
	r.publish(e)

	return r.status.Clone()
}

// Status returns the status so far.
func (r *Reporter) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.status.Clone()
}

// WriteStatus writes status.json.
func (r *Reporter) WriteStatus() error {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.write()
}

func (r *Reporter) write() error {
	r.written = r.o.Now()
	text, err := r.status.encode()
	if err != nil {
		return err
	}

	defer lock(r.o.Dir)()

	return writeFile(r.o.Dir, StatusFile, text)
}

// publish sends an event to the journal and to systemctl status.
func (r *Reporter) publish(e Event) {
	line := e.Stage
	if e.Summary != "" {
		line += ": " + e.Summary
	}

	switch e.State {
	case Failed:
		r.log(priError, line, e)
	case Notice:
		r.log(priWarning, line, e)
	case Skipped, Started:
		r.log(priDebug, line+" ("+e.State+")", e)
	default:
		r.log(priInfo, line, e)
	}
	if r.o.Notify != nil && e.State != Skipped {
		r.logError(r.o.Notify(line))
	}
}

func (r *Reporter) logError(err error) {
	if err != nil {
		r.log(priDebug, "report: "+err.Error(), Event{Stage: "report"})
	}
}

func (r *Reporter) log(priority int, line string, e Event) {
	if r.o.Log == nil {
		return
	}

	fields := map[string]string{
		"PRELET_STAGE":      e.Stage,
		"PRELET_GENERATION": strconv.Itoa(r.status.Generation),
		"MESSAGE_ID":        cmp.Or(e.Message, MessageStep),
	}
	if e.Unit != "" {
		fields["OBJECT_SYSTEMD_UNIT"] = e.Unit
	}
	r.o.Log(priority, r.o.Redact(line), fields)
}
