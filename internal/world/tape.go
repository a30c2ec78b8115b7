package world

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/prelet/prelet/internal/fault"
)

// Tape asks its source once for each question, and remembers: the same question has the same answer for the
// whole run, and what it holds at the end is the recording. Safe for concurrent use.
type Tape struct {
	next     Source
	fallback func(Question, Answer) (Answer, bool)

	mu      sync.Mutex
	entries map[Question]*entry
	sealed  bool
}

type entry struct {
	done   chan struct{}
	answer Answer
	broke  bool // its source panicked: whoever waited is told, and the recording does not have it
	late   bool // it came after the tape was sealed: the recording does not have it
}

// NewTape starts an empty tape before a source.
func NewTape(next Source) *Tape { return &Tape{next: next, entries: map[Question]*entry{}} }

// FallBack lets f replace failures: f sees a failed answer and may give another (marked Stale).
func (t *Tape) FallBack(f func(Question, Answer) (Answer, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fallback = f
}

// Ask implements Source. A question that another goroutine asks already is waited for, until ctx ends.
func (t *Tape) Ask(ctx context.Context, q Question) Answer {
	t.mu.Lock()
	e, ok := t.entries[q]
	if !ok {
		e = &entry{done: make(chan struct{})}
		t.entries[q] = e
	}
	fallback := t.fallback
	t.mu.Unlock()
	if !ok {
		e.answer, e.broke = unusable(q.Kind, "who asked it broke"), true
		defer close(e.done)
		a := t.next.Ask(ctx, q)
		if a.Fault != nil && fallback != nil {
			if f, ok := fallback(q, a); ok {
				a = f
			}
		}
		a = asRecorded(q.Kind, a)
		t.mu.Lock()
		e.answer, e.broke, e.late = a, false, t.sealed
		t.mu.Unlock()

		return a
	}
	select {
	case <-e.done:
		return e.answer
	case <-ctx.Done():
		return Failure(fault.ClusterUnreachable,
			"the deadline passed while another part of the run waited for the same answer", "")
	}
}

// Seal ends the recording: an answer that comes later, to who was left behind, is not in it.
func (t *Tape) Seal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = true
}

// Entries are the finished questions and answers, sorted by kind and arguments.
func (t *Tape) Entries() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Entry
	for q, e := range t.entries {
		select {
		case <-e.done:
			if !e.broke && !e.late {
				out = append(out, Entry{q, e.answer})
			}
		default: // abandoned at its deadline: never answered
		}
	}

	slices.SortFunc(out, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Args, b.Args)) })
	return out
}

// Entry is one question with its answer.
type Entry struct {
	Question
	Answer Answer
}
