package activation

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// ConfigCheck is the name of the check that compares the configuration in the kubelet's log with the plan.
const ConfigCheck = "config"

const whyOtherConfig = "the kubelet runs with another configuration than planned: %s; " +
	"a flag, or a drop-in that is read later, wins over its file"

// checkConfigz compares the configuration that the kubelet runs with to the plan: on request, if the site gives
// credentials for it, otherwise by the kubelet's log. An unknown result does not delay the verdict, because the check
// is optional.
func (w *watcher) checkConfigz(ctx context.Context, l *look) effect {
	c := w.spec.Configz
	if c.Credential == "" {
		w.checkLoggedConfig(ctx, l.unit)
		return passes
	}

	differ, err := w.m.Node.Configz(ctx, *c)
	switch {
	case err != nil && isUnknown(err):
		w.checkProbe("configz", err)
		w.checkLoggedConfig(ctx, l.unit)
	case err != nil:
		w.checkProbe("configz", err)
		return endsBad
	case len(differ) > 0:
		w.addBad("configz", whyOtherConfig, joinShort(differ))
		return endsBad
	default:
		w.addOK("configz")
	}

	return passes
}

// checkLoggedConfig compares the configuration in the log of the kubelet's process with the plan. A difference is drift
// and not the fault of a generation: the site has not asked for this check, and the kubelet is healthy. A log without
// the entry says nothing: the kubelet is older than 1.37, or its first lines are gone.
func (w *watcher) checkLoggedConfig(ctx context.Context, u Unit) {
	lines, err := w.m.Node.StartLog(ctx, w.spec.Unit, u.MainPID)

	var running map[string]any
	if err == nil {
		running, err = kubelet.ParseLoggedConfig(lines)
	}
	if err != nil {
		w.addQuiet(ConfigCheck, "unknown", err.Error())
		return
	}
	if running == nil {
		return
	}

	differ := kubelet.ConfigDifferences(w.spec.Configz.Planned, running)
	if len(differ) == 0 {
		w.addOK(ConfigCheck)
		return
	}

	w.reportDrift(
		ConfigCheck,
		"%s; systemctl cat %s shows its flags",
		fmt.Sprintf(whyOtherConfig, joinShort(differ)),
		w.spec.Unit,
	)
}
