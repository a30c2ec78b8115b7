package probe

import (
	"context"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// answerLogind returns the settings that decide how long logind delays a shutdown. Below another root no logind runs,
// and which drop-ins a recorded machine had is unknown.
func (l *Live) answerLogind(ctx context.Context, _ tape.LogindReq) tape.Answer {
	if l.isOtherMachine() || l.o.Units == nil {
		return tape.Failure(fault.Systemd, "logind of this node is not available", "")
	}

	u, err := l.o.Units.Look(ctx, "systemd-logind.service")
	if err != nil {
		return tape.Failure(fault.Systemd, err.Error(), "")
	}

	out := tape.LogindAns{
		Missing:  u.Load == "not-found" || u.Load == "masked",
		ReadOnly: l.root().FindDisk(systemd.LogindFolders()[0] + "/99-kubelet.conf").ReadOnly,
	}
	if l.o.InhibitDelay != nil && !out.Missing {
		// At a boot logind may not run yet; then its drop-ins decide alone.
		if delay, err := l.o.InhibitDelay(ctx); err == nil {
			out.DelayMicros = delay.Microseconds()
		}
	}
	for _, d := range systemd.ReadLogindDropIns(l.root()) {
		out.DropIns = append(out.DropIns, tape.LogindDropIn{Path: d.Path, Value: d.Value})
	}

	return tape.Logind.Answer(out)
}
