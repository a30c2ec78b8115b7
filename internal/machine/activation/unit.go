package activation

import (
	"context"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/platform/unitfile"
)

// Unit and Mount are what systemd reports of a unit and of a mount point.
type (
	Unit  = unitfile.Unit
	Mount = unitfile.Mount
)

// Units is systemd. An error means that systemd did not answer or refused the request. Otherwise the result is how the
// job ended: "done" is the only success, "queued" means not waited for, "unanswered" means that the job did not end in
// time.
type Units interface {
	Look(ctx context.Context, unit string) (Unit, error)
	// MayWait reports whether this process may wait for a start of the unit.
	MayWait(ctx context.Context, unit string) (bool, error)
	// Mounts returns the mounts at or above some paths, the highest first.
	Mounts(ctx context.Context, paths []string) ([]Mount, error)
	// Reload makes systemd read unit files again.
	Reload(ctx context.Context) error
	// Stop waits for wait at most; with 0 it does not wait.
	Stop(ctx context.Context, unit string, wait time.Duration) (result string, err error)
	// Act applies verb to a unit: "start", "restart", "try-restart" (only if it runs), or "reload" (a try-restart if
	// the unit cannot reload). CreateTmpfiles runs systemd-tmpfiles --create. Both wait as Stop does.
	Act(ctx context.Context, verb, unit string, wait time.Duration) (result string, err error)
	CreateTmpfiles(ctx context.Context, files []string, wait time.Duration) (result string, err error)
}

// The units that the packages ship.
const (
	BootUnit   = "prelet.service"
	ApplyUnit  = "prelet-apply.service"
	VerifyUnit = "prelet-verify.service"
)

const (
	jobDone       = "done"
	jobQueued     = "queued"
	jobUnanswered = "unanswered"
	jobDependency = "dependency"
	jobCanceled   = "canceled" // somebody stopped the unit
	jobSkipped    = "skipped"  // there was nothing to do, such as for a unit whose conditions do not hold
)

// isWaitingToRestart reports whether systemd waits for RestartSec=, or since systemd 254 for units that start before
// it (auto-restart-queued).
func isWaitingToRestart(u Unit) bool {
	return u.Active == "activating" && strings.HasPrefix(u.Sub, "auto-restart")
}

// isLoadable reports whether systemd understands the unit's files.
func isLoadable(u Unit) bool {
	return u.Load != "bad-setting" && u.Load != "error"
}

// isStarted reports whether a unit runs or is being started, by systemd itself or by another process.
func isStarted(u Unit) bool {
	return u.Active == "active" ||
		u.Active == "activating" && u.MainPID != 0 && !isWaitingToRestart(u)
}

// isAlive reports whether a process of the unit may run, or systemd may start one at any moment. Such a unit is stopped
// before its files change.
func isAlive(u Unit) bool {
	return u.Active != "inactive" && u.Active != "failed"
}

// isWanted reports whether the unit is supposed to run. An inactive unit without a job was never started or was stopped
// by hand.
func isWanted(u Unit) bool {
	return u.Job != 0 || u.Active != "inactive" && u.Active != "deactivating"
}

// hasGivenUp reports whether the unit failed and systemd does not start it again.
func hasGivenUp(u Unit) bool { return u.Active == "failed" && u.Job == 0 }

// wasSkipped reports whether the unit is not running because a condition of it did not hold when it was started.
func wasSkipped(u Unit) bool { return isStopped(u) && u.Skipped != 0 }

// isStopped reports whether the unit was stopped or never started, and no job is queued.
func isStopped(u Unit) bool { return u.Active == "inactive" && u.Job == 0 }
