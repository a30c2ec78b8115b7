package unitfile

import (
	"slices"
	"time"
)

// Definition is a unit as its files define it: whether systemd loads them, and the process that they start. Package
// systemd fills it from D-Bus, or from the files below a root. The comments name the D-Bus properties.
type Definition struct {
	Name  string
	Names []string // also those of aliases
	Load  string   // LoadState: loaded, masked, not-found, …
	// Refusal is why systemd does not load the unit, with the place (LoadError); "" if it does.
	Refusal string
	File    string // UnitFileState: enabled, disabled, static, masked, …; empty without a unit file

	Service
}

// Service is the process of a service: its command, its environment, and its needs.
type Service struct {
	Program string   // the file that ExecStart= starts, as written
	Command []string // the words of ExecStart=, the program first
	// Literal is set if systemd replaces no variables in Command (a colon before the program).
	Literal     bool
	Environment []string // NAME=VALUE
	Unset       []string // UnsetEnvironment=: NAME, or NAME=VALUE for this value only
	// EnvironmentFiles are the EnvironmentFile= lines after all drop-ins. Optional is set by a leading "-": the file
	// may be missing.
	EnvironmentFiles []EnvironmentFile
	// CommandAt is the place of Command, FILE:LINE, and EnvironmentAt that of each variable by its name; "" if not
	// known.
	CommandAt     string
	EnvironmentAt map[string]string

	HasPre    bool          // it has an ExecStartPre=
	Watchdog  time.Duration // WatchdogUSec: systemd kills a service that is silent for longer; 0: none
	Folder    string        // WorkingDirectory=; "" for the root, or if it is not known
	OtherRoot bool          // its processes have a root folder of their own (RootDirectory=, RootImage=)
}

// Unit is a unit of a systemd that runs: its definition, what systemd makes of it, and how it is at one moment.
type Unit struct {
	Definition

	Description string   // its text for people
	Files       []string // FragmentPath and DropInPaths, in the order in which systemd reads them
	Unread      bool     // NeedDaemonReload: one of its files changed since systemd read it
	// ProtectSystem is which part of the file system is read-only for it, strict, full, …, besides Writable
	// (ReadWritePaths=).
	ProtectSystem string
	Writable      []string

	Relations
	State
}

// Relations are the units that a unit requires, excludes or follows, and whether a person may start, stop and reload
// it.
type Relations struct {
	// NoStart and NoStop: systemd refuses to start or stop the unit by hand (RefuseManualStart=, RefuseManualStop=).
	NoStart, NoStop bool
	CanReload       bool // it has an ExecReload=, or reloads otherwise
	// NeverWith are the units that systemd never runs at the same time: Conflicts= of either.
	NeverWith []string
	// FailsWith are the units without which this one is not started: Requires=, Requisite=, BindsTo=.
	FailsWith []string
	After     []string // the units that it is ordered after: After= of it, and Before= of others
}

// State is how a unit is at one moment. Times are since boot, on CLOCK_MONOTONIC; 0: never.
type State struct {
	Active string // ActiveState: active, inactive, failed, activating, deactivating, …
	Sub    string // SubState: running, auto-restart, dead, …
	Result string // Result of a service: success, exit-code, resources (also a missing EnvironmentFile=), …
	Status int32  // ExecMainStatus of the last run: 200 and above are systemd's own, before the program runs
	Job    uint32 // id of the queued job, 0 for none

	MainPID  uint32        // 0: no main process
	Restarts uint32        // NRestarts: automatic restarts since the last start job
	Since    time.Duration // when it last began to start
	Started  time.Duration // ExecMainStartTimestampMonotonic
	Left     time.Duration // ActiveExitTimestampMonotonic: when it last ceased to be active

	// NextStart is when systemd starts it again, while it waits for RestartSec=; else 0.
	NextStart time.Duration
	// Skipped is when a Condition= or Assert= prevented the last start; else 0.
	Skipped   time.Duration
	FailedPre string // the ExecStartPre= that failed at the last start, and how; "" if none did
}

// EnvironmentFile is one EnvironmentFile= of a unit.
type EnvironmentFile struct {
	Path     string
	Optional bool
}

// RequiresFile reports whether the unit does not start while the file is missing. It is false when no EnvironmentFile=
// line names the file (an empty one in a later drop-in clears the list) or when the line begins with "-".
func (u Definition) RequiresFile(file string) bool {
	return slices.Contains(u.EnvironmentFiles, EnvironmentFile{Path: file})
}

// Mount is a mount point: its mount unit and its automount unit together.
type Mount struct {
	Path   string // the mount point
	Unit   string // the mount unit
	Active bool   // it is mounted, or an automount mounts it on access
	Job    bool   // systemd is about to mount it
	State  string // ActiveState of the mount unit
}
