package probe

import (
	"context"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/hardware"
	"github.com/prelet/prelet/internal/model/tape"
)

// answerHost returns the state of this machine for kubeadm's checks before a kubelet starts.
func (l *Live) answerHost(ctx context.Context, r tape.HostReq) tape.Answer {
	if l.isOtherMachine() {
		return tape.Failure(fault.Absent, "the state of another machine is not known", "")
	}

	out := hardware.ReadHost(ctx, "")
	if found := hardware.ReadListeners("/proc", r.Ports); len(found) > 0 && l.isKubeletStopped(ctx) {
		out.Listeners = hardware.IdentifyListeners(ctx, "/proc", found)
	}

	return tape.Host.Answer(out)
}

// isKubeletStopped reports whether the kubelet certainly does not run. A running kubelet has its ports itself.
func (l *Live) isKubeletStopped(ctx context.Context) bool {
	if l.o.Units == nil || l.o.Unit == "" {
		return false
	}
	u, err := l.o.Units.Look(ctx, l.o.Unit)

	return err == nil && u.MainPID == 0
}
