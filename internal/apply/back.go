package apply

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/activate"
	"github.com/prelet/prelet/internal/generation"
)

// Back pins a generation and then goes to it, in this order: one that is killed in between leaves a node that applies
// nothing and says so, and not one that silently applies again what somebody wants to be rid of. When going back fails
// with nothing changed, the pin is as it was.
func PinAndRollBack(s *generation.Store, to int, why string, do func() (int, error)) (int, error) {
	was, err := readHeld(s)
	if err != nil {
		return 0, err
	}

	if err := s.Pin(to, why); err != nil {
		return 0, err
	}

	gen, err := do()

	return gen, was.restoreIfUnchanged(err)
}

// Back goes to an earlier generation by hand, which choose names once what a crash left is finished.
func (r *Run) RollBack(ctx context.Context, why string, choose func() (int, error)) Result {
	if _, err := r.Machine.Recover(ctx); err != nil {
		return r.endBroken(ctx, fmt.Errorf("recovering what an interrupted run left: %w", err))
	}

	to, err := choose()
	if err == nil {
		if other := r.whyForeign(to); other != "" { // before anything is pinned
			err = activate.ForeignFault(to, other)
		}
	}

	var out activate.Outcome

	if err == nil {
		_, err = PinAndRollBack(r.Store, to, why, func() (int, error) {
			out, err = r.Machine.GoBack(ctx, to, why)

			return out.Generation, err
		})
	}

	if err == nil && out.Code == "" {
		out.Why = "" // that it was by hand, and a verdict needs no reason
	}

	e := ending{kind: byHand, to: to, why: why, out: out, activateErr: err, changed: err == nil}

	return r.collect(r.end(ctx, nil, hold{}, e))
}

// whyForeign says in which way a generation was made on another machine than this one, or nothing.
func (r *Run) whyForeign(gen int) string {
	if gen == 0 || r.Machine.Foreign == nil {
		return ""
	}

	return r.Machine.Foreign(gen)
}
