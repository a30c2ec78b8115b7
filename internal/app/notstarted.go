package app

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/report"
)

// setupStatuses are the exit statuses with which systemd itself ends a service before the program runs
// (systemd.exec(5), "Process Exit Codes"), as far as prelet's units can meet them: the name, and what to look at.
var setupStatuses = map[int32][2]string{
	203: {"EXEC", "/usr/bin/prelet is missing or cannot be executed"},
	226: {
		"NAMESPACE",
		"a folder of ReadWritePaths= in a drop-in is missing: make it, or write \"-\" before it",
	},
	233: {"RUNTIME_DIRECTORY", "/run/prelet cannot be made, or is not a folder"},
	exitCredentials: {
		"CREDENTIALS",
		"a credential of the unit cannot be read or decrypted: in /etc/credstore, /run/credstore and " +
			"/usr/lib/credstore it must be a regular file of at most 1 MiB; a file of LoadCredentialEncrypted= must " +
			"exist, and have been encrypted with the TPM or the host key of this machine",
	},
}

// notStarted is why systemd could not start prelet.service, before a line of prelet ran. Why is "" if it could, or if
// that is not known.
type notStarted struct {
	Why string
	// IsGiven is set if something outside of the image may be the cause: a credential that the machine was given, a
	// source of one that does not answer, or resources that the machine lacks.
	IsGiven bool
}

const exitCredentials = 243

// whyNotStarted asks systemd about prelet.service.
func whyNotStarted(ctx context.Context, h *Host) notStarted {
	if !h.Systemd {
		return notStarted{}
	}

	u, err := h.Units.Look(ctx, BootUnit)
	if err != nil {
		return notStarted{}
	}

	see := fmt.Sprintf("see journalctl -b -u %s", BootUnit)

	known, ok := setupStatuses[u.Status]
	switch {
	case u.Result == "exit-code" && ok:
		return notStarted{
			Why: fmt.Sprintf("systemd could not start %s (%d/%s): %s; %s", BootUnit, u.Status, known[0], known[1], see),

			IsGiven: u.Status == exitCredentials,
		}
	case u.Result == "exit-code" && u.Status >= 200 && u.Status <= 243, u.Result == "resources":
		return notStarted{
			Why:     fmt.Sprintf("systemd could not start %s (%s, status %d); %s", BootUnit, u.Result, u.Status, see),
			IsGiven: u.Result == "resources",
		}
	case u.Result == "timeout" && !hasBegun(h):
		const format = "systemd could not start %s in time, and prelet has not run: something that it opens for the " +
			"unit does not answer, such as a FIFO in /etc/credstore; %s"
		return notStarted{Why: fmt.Sprintf(format, BootUnit, see), IsGiven: true}
	}

	return notStarted{}
}

// hasBegun reports whether a prelet has begun a run in this boot.
func hasBegun(h *Host) bool {
	s, err := report.Load(h.RunDir)

	return err == nil && s.BootID == h.BootID
}
