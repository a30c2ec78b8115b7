package activate

import (
	"context"

	"github.com/prelet/prelet/internal/generation"
)

// Store is the part of the generations that the state machine needs. Its lock is held whenever a method of Machine is entered,
// and again when it returns, unless the error says that the lock could not be had.
type Store interface {
	Unlock() error
	Relock(ctx context.Context) error

	// Journal is the transaction in flight, or nil.
	Journal() (*generation.Journal, error)
	// Recover finishes what a crash left; afterwards the journal is nil or awaits a verdict. Files may change.
	Recover() (*generation.Journal, error)
	// Good closes the journal: this generation was judged good.
	Good(gen int, report []byte) error
	// RollbackToJudge puts the contents of generation to back in place of from, as a new generation that awaits a verdict. Files
	// change. With hold the plan of from counts as held until that verdict: Good holds it, Ill lets go of it. Files named in
	// without, which neither generation has a content for, go.
	RollbackToJudge(from, to int, why string, hold bool, without ...string) (int, error)
	// Ill closes the journal of a generation that came by going back: it is ill too.
	Ill(gen int, why string) error
	// Retire removes files of the generation in place that are not needed any more once it is good.
	Retire(gen int, paths ...string) error
	// AddTry counts a boot that begins to verify, and returns the count. Again in the same boot it counts nothing.
	AddTry(bootID string) (int, error)

	// Current is the generation in place, nil when there never was one. LastGood is the highest that was judged good.
	Current() (*generation.Info, error)
	LastGood() (gen int, ok bool)
	List() ([]generation.Info, error)
	// Blob is what a generation keeps under a name.
	Blob(gen int, name string) ([]byte, error)
	// Hold keeps a plan from being applied again. Held says whether one is.
	Hold(planID, why string) error
	Held(planID string) (why string, ok bool)
}

// Txn is a staged commit: everything is on disk, nothing is in place.
type Txn interface {
	Abort() error         // nothing was changed
	Commit() (int, error) // from here on only forward
	Publish() error       // every file; afterwards the journal awaits a verdict
}

var (
	_ Store = (*generation.Store)(nil)
	_ Txn   = (*generation.Txn)(nil)
)
