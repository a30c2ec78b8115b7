package boot

import (
	"context"
	"time"

	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/world"
)

// askLogind returns what decides how long a shutdown can be delayed: the answer of the node, with the drop-ins that
// the site writes.
func (j ruleCheck) askLogind(ctx context.Context) (l rules.Logind, isKnown bool) {
	if j.tape == nil {
		return l, false
	}
	a, _, err := world.Logind.Ask(ctx, j.tape, world.LogindReq{})
	if err != nil {
		return l, false
	}

	l = rules.Logind{
		Missing:  a.Missing,
		Delay:    time.Duration(a.DelayMicros) * time.Microsecond,
		ReadOnly: a.ReadOnly,
	}
	l.Later, l.LaterDelay = hostfiles.FindLogindDelay(a.DropIns, j.node.Files)

	return l, true
}
