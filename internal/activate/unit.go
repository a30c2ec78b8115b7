package activate

import (
	"context"
	"time"
)

// Unit is one unit at one moment, as systemd's D-Bus properties tell it. It is an alias of a type without a name: whoever
// implements Units spells the same type and need not import this package (internal/systemd does).
type Unit = struct {
	Name string
	Load string // LoadState
	File string // UnitFileState

	Active string // ActiveState
	Sub    string // SubState
	Result string // of the last run
	Job    uint32 // id of the queued job, 0 for none
	Unread bool   // NeedDaemonReload: one of its files is not as systemd has read it

	MainPID  uint32        // 0: no main process
	Restarts uint32        // NRestarts: automatic restarts since the last start that somebody asked for
	Started  time.Duration // start of the main process since boot, on CLOCK_MONOTONIC; 0: never

	EnvironmentFiles []struct {
		Path     string
		Optional bool
	}
}

// Units is systemd. An error means that it did not answer, or refused; how a job ended is the answer: "done" is the only
// success, "queued" one that was not waited for, "unanswered" one whose end did not come in time.
type Units interface {
	Look(ctx context.Context, unit string) (Unit, error)
	// MayWait says whether this process may wait for a start of the unit.
	MayWait(ctx context.Context, unit string) (bool, error)
	// Reload makes systemd read unit files again.
	Reload(ctx context.Context) error
	// Restart and Stop wait at most wait, and with 0 not at all.
	Restart(ctx context.Context, unit string, wait time.Duration) (result string, err error)
	Stop(ctx context.Context, unit string, wait time.Duration) (result string, err error)
}

const (
	jobDone       = "done"
	jobQueued     = "queued"
	jobUnanswered = "unanswered"
	jobDependency = "dependency"
)

// requiresFile says whether the unit refuses to start while the file is missing. It does not when no EnvironmentFile= line names
// it (an empty one in a later drop-in clears the list) or when the line has a "-".
func requiresFile(u Unit, file string) bool {
	for _, line := range u.EnvironmentFiles {
		if line.Path == file && !line.Optional {
			return true
		}
	}

	return false
}

// waitsToRestart says whether systemd sits out RestartSec=.
func isWaitingToRestart(u Unit) bool { return u.Active == "activating" && u.Sub == "auto-restart" }

// isAlive says whether a process of the unit may run, or systemd may start one by itself at any moment: what has to be stopped
// before the files change that it reads.
func isAlive(u Unit) bool { return u.Active != "inactive" && u.Active != "failed" }

// isWanted says whether somebody asked for the unit to run. An inactive one without a job is one that nobody asked for, or that
// somebody stopped.
func isWanted(u Unit) bool { return u.Job != 0 || u.Active != "inactive" && u.Active != "deactivating" }

// givenUp says whether systemd will not start the unit again by itself after it failed.
func hasGivenUp(u Unit) bool { return u.Active == "failed" && u.Job == 0 }

// isStopped says whether the unit was isStopped, or never started, and no job is going to change that.
func isStopped(u Unit) bool { return u.Active == "inactive" && u.Job == 0 }
