package systemd

import "time"

// Unit is one unit at one moment, as the D-Bus properties named in the comments tell it. It is an alias of a type without a
// name, so that a room which may not import this one can spell the same type and be handed a Conn: internal/commit/activation does.
type Unit = struct {
	Name string
	Load string // LoadState: loaded, masked, not-found, …
	File string // UnitFileState: enabled, disabled, static, masked, …; empty when there is no unit file

	Active string // ActiveState: active, inactive, failed, activating, deactivating, …
	Sub    string // SubState: running, auto-restart, dead, …
	Result string // Result of the last run: success, exit-code, resources (a missing EnvironmentFile= too), …; empty for no service
	Status int32  // ExecMainStatus of the last run: 200 and above are systemd's own, before the program runs
	Job    uint32 // id of the queued job, 0 for none
	Unread bool   // NeedDaemonReload: one of its files is not as systemd has read it

	Type      string        // of a service: simple, oneshot, notify, …
	CanReload bool          // it has an ExecReload=, or reloads otherwise
	Since     time.Duration // when it last began to start, on CLOCK_MONOTONIC; 0: never

	ProtectSystem string   // how much its processes may not write: strict, full, …
	Writable      []string // ReadWritePaths=
	Environment   []string // NAME=VALUE
	Command       []string // the words of ExecStart=, the program first

	MainPID  uint32        // 0: no main process
	Restarts uint32        // NRestarts: automatic restarts since the last start that somebody asked for
	Started  time.Duration // ExecMainStartTimestampMonotonic: since boot, on CLOCK_MONOTONIC; 0: never

	// NoStart and NoStop: systemd refuses to start or stop the unit by hand (RefuseManualStart=, RefuseManualStop=).
	NoStart, NoStop bool
	// NeverWith are the units that systemd never runs beside this one: Conflicts= of either.
	NeverWith []string
	// FailsWith are the units without which this one is not started: Requires=, Requisite=, BindsTo=.
	FailsWith []string
	Skipped   time.Duration // the last start was not tried, because a Condition= or Assert= does not hold: when; else 0

	// EnvironmentFiles are the EnvironmentFile= lines in force after all drop-ins, with whether a leading "-" lets a missing
	// file pass.
	EnvironmentFiles []struct {
		Path     string
		Optional bool
	}
}

// How a job ended: the results of systemd's JobRemoved signal, and two of our own. Only Done means that the job did what was
// asked; and of a Type=simple service it says no more than that a process was forked.
const (
	Done       = "done"
	Canceled   = "canceled"   // somebody cancelled it, or queued the opposite
	TimedOut   = "timeout"    // systemd gave up on it
	Failed     = "failed"     // the unit failed
	Dependency = "dependency" // a unit that it requires failed, so it was never tried
	Skipped    = "skipped"    // the unit had nothing to do for it

	Queued     = "queued"     // ours: the job was asked for and not waited for
	Unanswered = "unanswered" // ours: systemd had not reported an end when we stopped to wait
)
