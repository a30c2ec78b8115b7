// Package report tells what a run of prelet does and did: progress while it runs (STATUS= of the unit, journal entries), and
// status.json and metrics.prom in the run folder (/run/prelet) when it ends. It may touch these two files only; the notify
// socket and the journal are handed in. It decides nothing: no error of it may change what a run does.
//
// Every text goes through the caller's redactor before it is kept, so that nothing that leaves here, by whichever way, can
// hold a secret.
package report

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// FormatVersion is the version of status.json. A field may be added to a version; a change of meaning makes a new one.
const FormatVersion = 1

// How a run stands, as status.json says it.
const (
	Running  = "running"
	OK       = "ok"
	Degraded = "degraded" // done, but not as the site says
	Failed   = "failed"
)

// States of an event and of a stage, beside OK and Failed.
const (
	Started = "started"
	Skipped = "skipped"
	Notice  = "notice" // something that an operator should read; the step goes on
)

// Event is one thing that happened.
type Event struct {
	Time    time.Time
	Stage   string // a stage's address, or a step of apply: commit, gate, restart, verify, rollback
	State   string // Started, OK, Skipped, Failed, Notice
	Summary string // one line for people; may be empty
	Message string // one of the Message constants, or empty
}

// Ids of messages that an operator may want to find or alert on: journalctl MESSAGE_ID=….
const (
	MessageHeldBack   = "837169c7318848e6b6ee5cf825982f47" // the gate is shut, and why; shown for the kubelet's unit as well
	MessageCommitted  = "ffd6d7ef96034c68878ddb66f8c42ea0" // a generation was committed
	MessageGood       = "5b7b5b04b1a549c8b5a1e0c22328ab18" // a generation was verified
	MessageRolledBack = "dde987dc10d1435593d2e68d195234c5" // a generation failed, and the node went back
	MessageDegraded   = "5741b96c0379449b9d5cc0383356eed0" // it went on, but not as the site says
	MessageUnknown    = "074cf6804a6f49c1841dcce0a36e85be" // no verdict could be reached
	MessageStuck      = "ae8658680df348bf9bb3c804fea2a07f" // a person is needed
	MessageEnded      = "edaca37029cd4724b63501f834de2a58" // how the run ended
	MessageStep       = "e54e65c0e71a470296b618afc3d85f5e" // anything else that a stage or a step of apply says
)

// Options are what a Reporter writes to and with. Notify and Log may be nil.
type Options struct {
	Dir     string              // the run folder; it exists
	BootID  string              // 32 hexadecimal digits
	Version string              // of prelet
	Now     func() time.Time    // the clock
	Redact  func(string) string // knows the live secrets
	Notify  func(string) error  // one line for systemctl status
	Log     *slog.Logger        // attributes: stage, generation, message_id, unit

	// Continue takes up the status that an earlier process of this boot left: prelet-verify adds its verdict to what
	// prelet.service reported. A status of another boot, or none that can be read, is left behind.
	Continue bool
}

// Reporter collects one run. Its methods may be called from several goroutines.
type Reporter struct {
	o Options

	mu      sync.Mutex
	status  Status
	begun   map[string]time.Time // by stage
	written time.Time
}

// writeEvery bounds how often status.json is rewritten while a run is going on: `status --wait` needs no more.
const writeEvery = 100 * time.Millisecond

// New begins a report and says in status.json that a run is going on. The error is of that write; the Reporter is usable.
func New(o Options) (*Reporter, error) {
	r := &Reporter{o: o, begun: map[string]time.Time{}}
	if o.Continue {
		if before, err := Load(o.Dir); err == nil && before.BootID == o.BootID {
			r.status = *before
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.log(slog.LevelWarn, "the status that the run before left cannot be read: "+err.Error(), Event{Stage: "report"})
		}
	}
	r.status.FormatVersion = FormatVersion
	r.status.BootID = o.BootID
	r.status.Version = o.Version
	r.status.State = Running
	r.status.Code, r.status.Exit = "", 0
	r.status.Started = o.Now().UTC()
	r.status.Finished = nil
	return r, r.flush()
}

// Event takes note of e: a journal entry, a STATUS= line for what began or went wrong, and the stage's line in the status.
func (r *Reporter) Event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = r.o.Now()
	}
	e.Summary = r.o.Redact(e.Summary)
	switch e.State {
	case Started:
		r.begun[e.Stage] = e.Time
		r.status.stage(e.Stage, Running, 0)
	case OK, Skipped, Failed:
		ms := int64(0)
		if begun, ok := r.begun[e.Stage]; ok {
			ms = max(0, e.Time.Sub(begun).Milliseconds())
		}
		r.status.stage(e.Stage, e.State, ms)
	}
	r.tell(e)
	if e.Time.Sub(r.written) >= writeEvery && !r.isOfAnother() {
		r.warn(r.write())
	}
}

// IsOvertaken reports whether status.json is of another run of this boot that has ended since this one began.
func (r *Reporter) IsOvertaken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.isOfAnother()
}

// isOfAnother reports whether the report on the disk is that of another run, which has ended and awaits no verdict: the
// verdict that this run has found instead belongs into it.
func (r *Reporter) isOfAnother() bool {
	s, err := Load(r.o.Dir)

	return err == nil && s.BootID == r.o.BootID && s.Finished != nil && s.Verdict != "pending" &&
		!s.Started.Equal(r.status.Started)
}

// Degrade adds one reason why this run is not wholly what the site says. The same code and summary count once.
func (r *Reporter) Degrade(code, summary string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reason := Reason{Code: code, Summary: r.o.Redact(summary)}
	for _, known := range r.status.Degraded {
		if known == reason {
			return
		}
	}
	r.status.Degraded = append(r.status.Degraded, reason)
	r.log(slog.LevelWarn, reason.Code+": "+reason.Summary, Event{Stage: "report", Message: MessageDegraded})
}

// Note adds something that somebody should know of this boot, though nothing is wrong. The same code and summary count once.
func (r *Reporter) Note(code, summary string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := Reason{Code: code, Summary: r.o.Redact(summary)}
	if slices.Contains(r.status.Notes, note) {
		return
	}
	r.status.Notes = append(r.status.Notes, note)
	r.log(slog.LevelWarn, note.Code+": "+note.Summary, Event{Stage: "report"})
}

// Forget takes back the notes with this code: what an earlier process of this boot found is no longer so.
func (r *Reporter) Forget(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Notes = slices.DeleteFunc(slices.Clone(r.status.Notes), func(n Reason) bool { return n.Code == code })
}

// Mend takes back the reasons with this code: what an earlier process of this boot found is no longer so.
func (r *Reporter) Mend(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.status.Degraded[:0:0]
	for _, reason := range r.status.Degraded {
		if reason.Code != code {
			kept = append(kept, reason)
		}
	}
	r.status.Degraded = kept
}

// Generation says which generation is in place.
func (r *Reporter) Generation(n int) { r.set(func(s *Status) { s.Generation = n }) }

// Verdict says what became of the generation in place: pending, good, bad or unknown, and why.
func (r *Reporter) Verdict(verdict, why string) {
	r.set(func(s *Status) { s.Verdict, s.Why = verdict, r.o.Redact(why) })
}

// Held says that the site's plan is not applied, and why; an empty plan takes it back.
func (r *Reporter) Held(plan, why string) {
	r.set(func(s *Status) {
		s.Held = nil
		if plan != "" {
			s.Held = &Held{Plan: plan, Why: r.o.Redact(why)}
		}
	})
}

func (r *Reporter) set(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// HeldBack says in the journal of the unit itself why it does not start: systemctl status and journalctl -u of that unit show
// the line, and that is where somebody looks first.
func (r *Reporter) HeldBack(unit, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Log != nil {
		r.o.Log.Error("prelet holds "+unit+" back: "+r.o.Redact(why),
			"stage", "gate", "unit", unit, "message_id", MessageHeldBack, "generation", r.status.Generation)
	}
}

// Finish writes how the run ended to status.json, metrics.prom, STATUS= and the journal, and returns the status. The
// code is that of the failure, "" for none. The error is of writing the two files.
func (r *Reporter) Finish(code fault.Code, summary string) (Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Now().UTC()
	r.status.Finished = &now
	r.status.Code, r.status.Exit = code, code.Exit()
	r.status.Summary = r.o.Redact(summary)
	switch {
	case code != "":
		r.status.State = Failed
	case len(r.status.Degraded) > 0 || r.status.Held != nil:
		r.status.State = Degraded
	default:
		r.status.State = OK
	}
	e := Event{Stage: "report", State: OK, Summary: r.status.State + ": " + r.status.Summary, Message: MessageEnded}
	if code != "" {
		e.State = Failed
	}
	r.tell(e)

	written := r.write()
	metrics, err := r.status.Metrics()
	if err == nil {
		err = writeFile(r.o.Dir, MetricsFile, metrics)
	}

	err = errors.Join(written, err)
	return r.status.clone(), err
}

// Status is what there is to say so far.
func (r *Reporter) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.clone()
}

func (r *Reporter) flush() error {
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
	return writeFile(r.o.Dir, StatusFile, text)
}

func (r *Reporter) tell(e Event) {
	line := e.Stage
	if e.Summary != "" {
		line += ": " + e.Summary
	}
	switch e.State {
	case Failed:
		r.log(slog.LevelError, line, e)
	case Notice:
		r.log(slog.LevelWarn, line, e)
	case Skipped, Started:
		r.log(slog.LevelDebug, line+" ("+e.State+")", e)
	default:
		r.log(slog.LevelInfo, line, e)
	}
	if r.o.Notify != nil && e.State != Skipped {
		r.warn(r.o.Notify(line))
	}
}

func (r *Reporter) warn(err error) {
	if err != nil {
		r.log(slog.LevelDebug, "report: "+err.Error(), Event{Stage: "report"})
	}
}

func (r *Reporter) log(level slog.Level, line string, e Event) {
	if r.o.Log == nil {
		return
	}
	if e.Message == "" {
		e.Message = MessageStep
	}
	r.o.Log.Log(context.Background(), level, r.o.Redact(line), "stage", e.Stage, "generation", r.status.Generation, "message_id", e.Message)
}
