// Package bootfailure finds out why a boot has no run: systemd could not start prelet.service, or its processes died.
// prelet-verify.service and `prelet status` ask then. It asks systemd, and changes nothing.
package bootfailure

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// setupHints are the next steps after an exit status with which systemd itself ends a service before the program runs,
// as far as prelet's units can meet them.
var setupHints = map[int32]string{
	unitfile.StatusExec: "/usr/bin/prelet is missing or cannot be executed",
	226: "a path of ReadWritePaths= or of another setting that mounts (BindPaths=, TemporaryFileSystem=) is missing, " +
		"or is not a folder: make it, or write \"-\" before it in the drop-in; the journal names it",
	233: "/run/prelet cannot be made, or is not a folder",
	exitCredentials: "a credential of the unit cannot be read or decrypted: in /etc/credstore, /run/credstore and " +
		"/usr/lib/credstore it must be a regular file of at most 1 MiB; a file of LoadCredentialEncrypted= must " +
		"exist, and have been encrypted with the TPM or the host key of this machine",
}

// Failure is why systemd could not start prelet.service, before a line of prelet ran, or why none of its processes
// of this boot came to an end. Why is "" if it could, or if that is not known.
type Failure struct {
	Why string
	// IsKilled is set if processes of prelet began, and were killed or died each time.
	IsKilled bool
	// IsGiven is set if something outside of the image may be the cause: a credential that the machine was given, a
	// source of credentials that does not answer, or resources that the machine lacks.
	IsGiven bool
}

const exitCredentials = 243

// deathLimit is how often a prelet.service in a row is killed or dies before the node goes on without a run.
const deathLimit = 3

// exitPanic is the exit status of a Go program that the runtime ends: a panic, or no memory or thread. prelet run has
// no such status of its own.
const exitPanic = 2

// FindFailure asks systemd about prelet.service. hasBegun is set if a prelet has begun a run in this boot.
func FindFailure(ctx context.Context, units activation.Units, hasBegun bool) Failure {
	u, err := units.Look(ctx, activation.BootUnit)
	if err != nil {
		return Failure{}
	}

	see := fmt.Sprintf("see journalctl -b -u %s", activation.BootUnit)

	isSkipped := u.Active == "inactive" && u.Job == 0 && u.Skipped != 0
	status, hint := u.NotStarted(), setupHints[u.Status]
	switch {
	case u.Load == "masked":
		const format = "%s is masked, so no run prepares this node: systemctl unmask %[1]s; if %[1]s is an empty " +
			"file, install the package prelet again"
		return Failure{Why: fmt.Sprintf(format, activation.BootUnit)}
	case u.Load == "bad-setting" || u.Load == "error":
		const format = "systemd cannot load %[1]s (%[2]s), so no run prepares this node: correct or remove the " +
			"drop-in with the wrong line (systemctl cat %[1]s; systemd logs it: journalctl -b _PID=1), then: " +
			"systemctl daemon-reload && systemctl start %[1]s"
		return Failure{Why: fmt.Sprintf(format, activation.BootUnit, u.Load)}
	case u.Load != "loaded" && !hasBegun: // else somebody else starts prelet
		const format = "systemd cannot load %s (%s), so no run prepares this node: install the package prelet again"
		return Failure{Why: fmt.Sprintf(format, activation.BootUnit, u.Load)}
	case isSkipped: // the unit of the package has no condition
		const format = "systemd did not start %s, because a Condition= or Assert= %sdoes not hold, so no run " +
			"prepares this node: remove the drop-in with it (systemctl cat %[1]s), then: systemctl daemon-reload && " +
			"systemctl start %[1]s"
		where := ""
		if len(u.Files) > 1 {
			where = "(in one of " + strings.Join(u.Files[1:], ", ") + ") "
		}
		return Failure{Why: fmt.Sprintf(format, activation.BootUnit, where)}
	case status != "" && hint != "":
		const format = "systemd could not start %s (%s): %s; %s"
		return Failure{
			Why:     fmt.Sprintf(format, activation.BootUnit, status, hint, see),
			IsGiven: u.Status == exitCredentials,
		}
	case status != "":
		return Failure{Why: fmt.Sprintf("systemd could not start %s (%s); %s", activation.BootUnit, status, see)}
	case u.Result == "resources":
		return Failure{
			Why:     fmt.Sprintf("systemd could not start %s (%s); %s", activation.BootUnit, u.Result, see),
			IsGiven: true,
		}
	case hasDied(u) && u.Restarts+1 >= deathLimit:
		return describeDeath(u)
	case u.Result == "timeout" && !hasBegun:
		const format = "systemd could not start %s in time, and prelet has not run: something that it opens for the " +
			"unit does not answer, such as a FIFO in /etc/credstore, or a mount at /var/lib/prelet or " +
			"/var/lib/kubelet; %s"
		return Failure{Why: fmt.Sprintf(format, activation.BootUnit, see), IsGiven: true}
	}

	return Failure{}
}

// hasDied reports whether the last process of prelet.service did not end by itself, and no other one has begun since.
func hasDied(u activation.Unit) bool {
	if u.MainPID != 0 {
		return false
	}

	switch u.Result {
	case "signal", "core-dump", "oom-kill", "watchdog":
		return true
	case "timeout": // it was killed at TimeoutStartSec=
		return u.Started != 0
	}

	return u.Result == "exit-code" && u.Status == exitPanic
}

// describeDeath describes a prelet.service that was killed or died at each try.
func describeDeath(u activation.Unit) Failure {
	how := fmt.Sprintf("%s, status %d", u.Result, u.Status)
	if name := unix.SignalName(syscall.Signal(u.Status)); u.Result != "exit-code" && name != "" {
		how = fmt.Sprintf("%s, %s", u.Result, name)
	}

	hint := "its last lines have the reason"
	isMemory := u.Result == "oom-kill" || u.Result != "exit-code" && u.Status == int32(unix.SIGKILL)
	if isMemory {
		hint = "the kernel kills it where the machine or MemoryMax= of the unit has too little memory: dmesg"
	}

	return Failure{
		Why: fmt.Sprintf(
			"%s was killed or died at each of %d tries (%s): %s; see journalctl -b -u %s; prelet run tries again",
			activation.BootUnit, u.Restarts+1, how, hint, activation.BootUnit,
		),
		IsKilled: true,
		IsGiven:  isMemory || u.Result == "timeout",
	}
}
