// Package unit is the vocabulary in which prelet speaks of systemd's units and jobs: what a unit looks like at one moment,
// and how a job ended. It is data and questions about that data. It may touch nothing: the standard library only, no D-Bus,
// no clock, so that the state machine that judges a kubelet and a fake of systemd share it with the real connection.
package unit

import "time"

// Values of systemd's properties that prelet tells apart. There are more, and a new systemd may bring others: code asks for
// the one that it needs and treats the rest as "something else".
const (
	Loaded   = "loaded"    // LoadState: the unit file was found and parsed
	Masked   = "masked"    // LoadState: a link to /dev/null forbids it
	NotFound = "not-found" // LoadState: no unit file of that name

	Active       = "active"       // ActiveState: runs
	Inactive     = "inactive"     // ActiveState: does not run, and did not fail
	Failed       = "failed"       // ActiveState: ended badly, and nothing will start it again
	Activating   = "activating"   // ActiveState: is being started, or waits for its automatic restart
	Deactivating = "deactivating" // ActiveState: is being stopped

	AutoRestart = "auto-restart" // SubState: waits out RestartSec= after a failure

	Success   = "success"   // Result: the last run ended well, or there was none
	Resources = "resources" // Result: systemd could not even start it; a missing EnvironmentFile= looks so
)

// State is one unit at one moment, as systemd's D-Bus properties of the same names tell it.
type State struct {
	Name string
	Load string // LoadState
	File string // UnitFileState: enabled, disabled, static, masked, …; empty when there is no unit file

	Active string // ActiveState
	Sub    string // SubState
	Result string // Result of the last run; empty for a unit that is no service
	Job    uint32 // id of the queued job, 0 for none

	MainPID  uint32        // 0: no main process
	Restarts uint32        // NRestarts: automatic restarts since the last start that somebody asked for
	Started  time.Duration // ExecMainStartTimestampMonotonic: since boot, on CLOCK_MONOTONIC; 0: never

	EnvironmentFiles []EnvironmentFile
}

// EnvironmentFile is one EnvironmentFile= line that is in force, after all drop-ins.
type EnvironmentFile struct {
	Path     string
	Optional bool // written with a leading "-": a missing file is ignored
}

// Requires says whether the unit refuses to start while the file at path is missing. It is false both when no line names the
// file (an empty EnvironmentFile= in a later drop-in clears the list) and when the line has a "-".
func (s State) Requires(path string) bool {
	for _, file := range s.EnvironmentFiles {
		if file.Path == path && !file.Optional {
			return true
		}
	}
	return false
}

// WaitsToRestart says whether systemd sits out RestartSec= before it starts the unit again. A StartUnit job then waits as
// well; a RestartUnit job does not.
func (s State) WaitsToRestart() bool { return s.Active == Activating && s.Sub == AutoRestart }

// Wanted says whether somebody or something asked for the unit to run: it runs, it is on its way, a job is queued, or its last
// start failed. An inactive unit without a job is one that nobody asked for, or that somebody stopped on purpose.
func (s State) Wanted() bool { return s.Job != 0 || s.Active != Inactive && s.Active != Deactivating }

// Running says whether a process of the unit may run now or be started by systemd at any moment: what has to be stopped before
// the files that it reads are replaced.
func (s State) Running() bool { return s.Active != Inactive && s.Active != Failed }

// Result is how a job ended.
type Result string

// The results of systemd's JobRemoved signal, and two of our own. Only Done means that the job did what was asked; and of a
// Type=simple service it says no more than that a process was forked.
const (
	Done       Result = "done"
	Canceled   Result = "canceled"   // somebody cancelled it, or queued the opposite
	TimedOut   Result = "timeout"    // systemd gave up on it
	JobFailed  Result = "failed"     // the unit failed
	Dependency Result = "dependency" // a unit that it requires failed, so it was never tried
	Skipped    Result = "skipped"    // the unit had nothing to do for it

	Queued     Result = "queued"     // ours: the job was asked for and not waited for
	Unanswered Result = "unanswered" // ours: systemd had not reported an end when we stopped to wait
)
