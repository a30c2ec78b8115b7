package tape

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/prelet/prelet/internal/fault"
)

// Tape asks its source each question once and stores the answer, so a question has the same answer during a whole
// run. At the end its entries are the recording. It is safe for concurrent use.
type Tape struct {
	next     Source
	fallback func(Question, Answer) (Answer, bool)

	mu      sync.Mutex
	entries map[Question]*entry
	sealed  bool
}

type entry struct {
	done   chan struct{} // closed when the source has returned
	answer Answer

	isSettled bool // answer has been used, and does not change any more
	isLate    bool // it came after the tape was sealed, so it is not in the recording
}

// NewTape returns an empty tape in front of a source.
func NewTape(next Source) *Tape {
	return &Tape{next: next, entries: map[Question]*entry{}}
}

// Fallback may replace a failed answer by another one, marked Stale. Else it returns the failed answer and false.
type Fallback func(Question, Answer) (Answer, bool)

// SetFallback sets the function that may replace failed answers.
func (t *Tape) SetFallback(f Fallback) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fallback = f
}

// Ask implements Source. If another goroutine is asking the same question, Ask waits for its answer until ctx ends.
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
		// If the source panics, this answer stays, and callers that wait get it. It is not in the recording.
		e.answer = unusable(q.Kind, "its source panicked")
		defer close(e.done)

		a := replaceFailure(fallback, q, t.next.Ask(ctx, q))

		return t.settle(e, asRecorded(q.Kind, a))
	}

	select {
	case <-e.done:
		return e.answer
	case <-ctx.Done():
		a := unusable(q.Kind, "the deadline passed while another part of the run waited for the same answer")
		if a.Code() == fault.ClusterUnusable {
			a.Fault.Code = fault.ClusterUnreachable
		}
		a = replaceFailure(fallback, q, a)
		if a.Fault != nil {
			return a // the first caller may still get an answer
		}
		return t.settle(e, asRecorded(q.Kind, a))
	}
}

// settle makes a the answer of a question unless the question is settled already, and returns its answer.
func (t *Tape) settle(e *entry, a Answer) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()

	if !e.isSettled {
		e.answer = a
		e.isSettled = true
		e.isLate = t.sealed
	}

	return e.answer
}

// replaceFailure returns the answer of fallback in place of a failure, if fallback has one.
func replaceFailure(fallback Fallback, q Question, a Answer) Answer {
	if a.Fault == nil || fallback == nil {
		return a
	}
	if other, ok := fallback(q, a); ok {
		return other
	}

	return a
}

// Seal ends the recording. Later answers are not in it.
func (t *Tape) Seal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = true
}

// Entries returns the answered questions, sorted by kind and arguments.
func (t *Tape) Entries() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Entry
	for q, e := range t.entries {
		if e.isSettled && !e.isLate { // else it was abandoned at its deadline, or its source panicked
			out = append(out, Entry{q, e.answer})
		}
	}

	slices.SortStableFunc(out, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Args, b.Args),
		)
	})

	return out
}

// Entry is one question with its answer.
type Entry struct {
	Question
	Answer Answer
}
