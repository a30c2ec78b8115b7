package run

import (
	"context"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
)

// Recovered is the result of Recover: the document of `recover -o json`.
type Recovered struct {
	FormatVersion int      `json:"format_version"`
	InPlace       int      `json:"in_place,omitempty"`    // in place; absent for none
	Interrupted   int      `json:"interrupted,omitempty"` // the generation that was finished or undone; absent for none
	Phase         string   `json:"phase,omitempty"`       // of that one
	TakenBack     bool     `json:"taken_back,omitempty"`  // instead of finished, with the one before in place again
	Differing     []string `json:"differing"`             // files that are not as the generation in place made them
	Lost          string   `json:"lost,omitempty"`        // that it was lost, and what to do
	Awaits        int      `json:"-"`                     // the generation that awaits its verdict; 0 for none
}

// newRecovered returns the result for a journal that was found; nil for none.
func newRecovered(was *generation.Journal) Recovered {
	r := Recovered{FormatVersion: 1, Differing: []string{}}
	switch {
	case was.IsUnfinished():
		r.Interrupted = was.Gen
		r.Phase = string(was.Phase)
	case was != nil:
		r.Awaits = was.Gen
	}

	return r
}

// Recover finishes or undoes an interrupted commit below a root, or on this node if root is "".
func Recover(ctx context.Context, e *machine.Env, root string) (Recovered, error) {
	h, err := e.HostOf(root, true)
	if err != nil {
		return Recovered{}, err
	}
	defer h.Units.Close()
	store, err := h.LockNode(ctx)
	if err != nil {
		return Recovered{}, err
	}
	defer store.Close()

	if newer := activation.Newer(store); newer != nil {
		return recoverNewer(e, store, newer)
	}

	was, err := store.Journal()
	switch {
	case err != nil:
	case h.IsBelow():
		_, err = store.Recover()
	case !was.IsUnfinished():
		// removes files that were staged and never committed
		_, err = h.Machine(store).Enter(ctx, activation.Entry{On: activation.OnFinish})
	}
	if err != nil {
		return Recovered{}, err
	}
	if was.IsUnfinished() && !h.IsBelow() {
		if err := finishInterrupted(ctx, e, h, store); err != nil {
			return Recovered{}, err
		}
	}
	r, err := describeRecovered(store, was)
	if over := store.StartsOver(); over != nil {
		r.Lost = over.DescribeNext()
	} else if !h.IsBelow() {
		r.Lost = h.Machine(store).WhyLost(ctx)
	}

	return r, err
}

// recoverNewer describes a store with files of a newer prelet. Only the newer prelet can finish its change.
func recoverNewer(e *machine.Env, store *generation.Store, newer error) (Recovered, error) {
	if err := store.CheckFinished(); err != nil {
		return Recovered{}, err
	}
	e.SayError(newer)
	was, err := store.Journal()
	if err != nil {
		return Recovered{}, err
	}

	return describeRecovered(store, was)
}

// describeRecovered describes a store without an interrupted commit. Its journal may have been removed during a
// publish.
func describeRecovered(store *generation.Store, was *generation.Journal) (r Recovered, err error) {
	r = newRecovered(was)
	if cur, err := store.Current(); err == nil && cur != nil {
		r.InPlace = cur.Gen
		_, isKept := store.Info(r.Interrupted)
		r.TakenBack = r.Interrupted > 0 && !isKept
	}
	differing, err := store.Differing()
	r.Differing = append(r.Differing, differing...)

	return r, err
}

// finishInterrupted brings every file to one generation, opens the gate on it, and judges it.
func finishInterrupted(ctx context.Context, e *machine.Env, h *machine.Host, store *generation.Store) error {
	r := begin(e, h, store, true)
	r.Verify(ctx)
	r.conclude(ctx)

	return faultOf(r.Result)
}

// faultOf returns the error of a command whose entry failed.
func faultOf(res commit.Result) error {
	switch {
	case res.Err != nil:
		return res.Err
	case res.Code != "":
		return res.Code.Errorf("%s", res.Summary)
	}

	return nil
}
