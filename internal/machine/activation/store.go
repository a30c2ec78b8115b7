package activation

import (
	"context"

	"github.com/prelet/prelet/internal/machine/generation"
)

// Store is the part of the generations that the state machine needs. Its lock is held whenever a method of StateMachine
// is called and when it returns, unless the error reports that the lock could not be taken.
type Store interface {
	Unlock() error
	Relock(ctx context.Context) error

	// Journal returns the journal of the change in progress, or nil.
	Journal() (*generation.Journal, error)
	// ReadOnly returns why nothing can be written, or nil.
	ReadOnly() error
	// Newer returns an error if a newer prelet wrote a part of the store.
	Newer() error
	// StartsOver returns the state that could not be trusted and was set aside, if no generation followed it; else nil.
	StartsOver() *generation.Aside
	// FindAside returns the state that was set aside last, or nil.
	FindAside() *generation.Aside
	// Stage stages a change: everything is on disk, and nothing is in place.
	Stage(p generation.Proposal, c *generation.Comparison) (*generation.Txn, error)
	// Recover finishes an interrupted change; the returned journal is nil or awaits a verdict. Files may change.
	Recover() (*generation.Journal, error)
	// Good closes the journal: this generation is good.
	Good(gen int, report []byte) error
	// RollbackToJudge puts the contents of generation to in place of generation from, as a new generation that awaits
	// a verdict. Files change. With hold the plan of from is held, and MarkUnhealthy releases it. Files in without that
	// neither generation contains are removed. The state before prelet, 0, has no blobs, and the new generation keeps
	// these.
	RollbackToJudge(from, to int, why string, hold bool, blobs map[string][]byte, without ...string) (int, error)
	// CheckRollback returns why RollbackToJudge would fail, and changes no file. changed are the files that it would
	// change; warnings are the faults that it does not refuse, such as folders that other users may change.
	CheckRollback(from, to int, without ...string) (changed, warnings []string, err error)
	// MarkUnhealthy closes the journal of a rollback: the restored generation is unhealthy too.
	MarkUnhealthy(gen int, why string) error
	// Retire removes files of the generation in place that are not needed once it is good.
	Retire(gen int, paths ...string) error
	// AddTry counts a boot that begins to verify, and returns the count. A second call in the same boot does not count.
	AddTry(bootID string) (int, error)
	// UndoTry records that the verification of a boot ended without a verdict, so that it does not count.
	UndoTry(bootID string) error

	// Current returns the generation in place, nil when there never was one.
	Current() (*generation.Info, error)
	// ListDrift returns which of some files are not as the generation in place made them. The others are not read.
	ListDrift(isListed func(path string) bool) ([]generation.Drifted, error)
	// LastGood returns the highest good generation; ok is false if there is none.
	LastGood() (gen int, ok bool)
	List() ([]generation.Info, error)
	// Info returns one generation of List.
	Info(gen int) (info generation.Info, ok bool)
	// Blob returns a named blob of a generation.
	Blob(gen int, name string) ([]byte, error)
	Held(planID string) (why string, ok bool)
}

var _ Store = (*generation.Store)(nil)
