package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/machine"
)

// restartWatch is how long after the end of a kubelet that systemd has started again the node is not ok. A kubelet that
// ends again and again runs for some seconds in between.
const restartWatch = 5 * time.Minute

// describeFailing returns how the kubelet's unit fails, or failed a short time ago, after the last run; "" if it does
// not, or cannot be asked. checked is when that run ended, or when a later check found the kubelet healthy; nil: never.
func describeFailing(ctx context.Context, h *machine.Host, unit string, checked *time.Time) string {
	u, err := h.Units.Look(ctx, unit)
	switch {
	case err != nil:
		return ""
	case u.Load == "masked":
		return unit + " is masked: it does not start; systemctl unmask " + unit
	case u.Active == "failed" || u.Sub == "auto-restart":
		return fmt.Sprintf("%s fails (%s, restarted %d times); see journalctl -b -u %s",
			unit, u.DescribeResult(), u.Restarts, unit)
	case u.Restarts > 0 && u.Active == "activating": // of Type=notify, and never active so far
		return fmt.Sprintf("%s is starting again (restarted %d times); see journalctl -b -u %[1]s",
			unit, u.Restarts)
	case u.Restarts == 0 || u.Left == 0 || checked == nil:
		return ""
	}

	ago := h.Clock.Monotonic() - u.Left
	if ago > restartWatch || h.Clock.Now().Add(-ago).Before(*checked) {
		return ""
	}

	return fmt.Sprintf(
		"%s ended %s ago, and systemd has started it again (restarted %d times); see journalctl -b -u %s",
		unit, ago.Round(time.Second), u.Restarts, unit,
	)
}
