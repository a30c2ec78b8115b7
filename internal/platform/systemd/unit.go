package systemd

import "github.com/prelet/prelet/internal/platform/unitfile"

// Unit and Mount are what systemd reports of a unit and of a mount point.
type (
	Unit  = unitfile.Unit
	Mount = unitfile.Mount
)

// Results of a job: those of systemd's JobRemoved signal, and two more. Only Done means that the job was done; for a
// Type=simple service it only means that a process was forked.
const (
	Done       = "done"
	Canceled   = "canceled"   // it was cancelled, or the opposite was queued
	TimedOut   = "timeout"    // systemd stopped waiting for it
	Failed     = "failed"     // the unit failed
	Dependency = "dependency" // a required unit failed, so the job was never tried
	Skipped    = "skipped"    // the job did not apply to the unit's state

	Queued     = "queued"     // prelet's own: the job was queued and not waited for
	Unanswered = "unanswered" // prelet's own: systemd had not reported an end when the wait ended
)
