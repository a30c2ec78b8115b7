package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
)

// PinAndRollBack pins a generation before it rolls back to it. A process that is killed in between leaves a node that
// applies nothing and reports that, and not a node that silently applies the unwanted plan again. If the rollback fails
// with nothing changed, the previous pin is restored.
func PinAndRollBack(
	s *generation.Store,
	to int,
	why string,
	do func() (int, error),
) (int, error) {
	was, err := s.Holds()
	if err != nil {
		return 0, err
	}

	before, err := readInPlace(s)
	if err != nil {
		return 0, err
	}

	if err := s.Pin(to, why); err != nil {
		return 0, err
	}

	gen, err := do()
	if err == nil {
		return gen, nil
	}

	if now, unread := readInPlace(s); unread != nil || now != before {
		return gen, err
	}

	if undo := s.RestoreHolds(was); undo != nil {
		return gen, errors.Join(err, undo)
	}

	return gen, err
}

// inPlace identifies the generation in place and the change in progress.
type inPlace struct {
	gen      int // 0: none
	changing int // the generation of the journal; 0: no journal
	phase    generation.Phase
}

func readInPlace(s *generation.Store) (out inPlace, err error) {
	j, err := s.Journal()
	if err != nil {
		return out, err
	}

	if j != nil {
		out.changing = j.Gen
		out.phase = j.Phase
	}

	cur, err := s.Current()
	if err == nil && cur != nil {
		out.gen = cur.Gen
	}

	return out, err
}

// RollBack rolls back by hand to the generation that choose returns. choose is called after an interrupted change is
// finished.
func (r *Run) RollBack(ctx context.Context, why string, choose func() (int, error)) Result {
	if _, err := r.Machine.Recover(ctx); err != nil {
		return r.endBroken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
	}

	to, err := choose()
	if err == nil {
		other := r.whyForeign(to)
		if other != "" { // before anything is pinned
			err = activation.ForeignFault(to, other)
		}
	}

	var out activation.Outcome

	if err == nil {
		_, err = PinAndRollBack(r.Store, to, why, func() (int, error) {
			out, err = r.Machine.GoBack(ctx, to, why)

			return out.Generation, err
		})
	}

	if err == nil && out.Code == "" {
		out.Why = "" // a rollback by hand and a verdict need no reason
	}

	e := ending{
		kind:        byHand,
		to:          to,
		why:         why,
		out:         out,
		activateErr: err,
		changed:     err == nil,
	}

	return r.collect(r.end(ctx, nil, hold{}, e))
}

// whyForeign returns why a generation belongs to another machine, or "".
func (r *Run) whyForeign(gen int) string {
	if gen == 0 || r.Machine.Foreign == nil {
		return ""
	}

	return r.Machine.Foreign(gen)
}
