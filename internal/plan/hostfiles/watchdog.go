package hostfiles

import (
	"path"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

const (
	// watchdogSince is the minor version from which kubelets report to systemd's watchdog.
	watchdogSince = 32
	// watchdogLocked is the version from which they do so without regard to a feature gate.
	watchdogLocked = 35
	// shortestWatchdog is the longest WatchdogSec= with which a kubelet does not start.
	// Source: pkg/kubelet/watchdog/watchdog_linux.go, minimalNotifyInterval.
	shortestWatchdog = time.Second
)

// CheckWatchdog reports a WatchdogSec= of the kubelet's unit with which the installed kubelet is killed again and
// again. start is how systemd has loaded the unit, and at is where the site writes the kubelet's files.
func CheckWatchdog(n desired.Node, s rules.Subject, start *tape.StartAns, at hcl.Range) hcl.Diagnostics {
	var found origin.Collector
	timeout, at := findWatchdog(n, start, at)
	minor, isKnown := known.Minor(s.Version)
	if !isKnown || timeout <= 0 {
		return nil
	}

	isOn, isGateKnown := rules.IsGateOn(s, "SystemdWatchdog")
	isOff := isGateKnown && !isOn && minor < watchdogLocked
	switch {
	case minor < watchdogSince || isOff:
		why := "kubelets do so from 1.32 on"
		if isOff {
			why = "the feature gate SystemdWatchdog is off"
		}

		found.Warn(
			fault.KubeletMachine, at, "systemd would kill the kubelet",
			"%s has WatchdogSec=%s, and %s does not report to the watchdog (%s): systemd kills it after that time, "+
				"again and again. Remove WatchdogSec= from the unit's drop-ins, or set it to 0 in a later one.",
			n.KubeletUnit(), timeout, s.Version, why,
		)
	case timeout <= shortestWatchdog:
		found.Error(
			fault.KubeletMachine, at, "The kubelet would not start with its watchdog",
			"configure watchdog timeout too small: %s has WatchdogSec=%s, and a kubelet needs more than %s. "+
				"Write WatchdogSec=30s, or remove it.",
			n.KubeletUnit(), timeout, shortestWatchdog,
		)
	}

	return found.Diags
}

// findWatchdog returns the WatchdogSec= of the kubelet's unit, and where the site sets it: that of a planned file, or
// else what systemd has loaded. 0: none, or not known. Of a planned unit, drop-ins of the disk are not known.
func findWatchdog(n desired.Node, start *tape.StartAns, at hcl.Range) (timeout time.Duration, _ hcl.Range) {
	if start != nil { // without WatchdogMicros in a recording that is older
		timeout = time.Duration(start.WatchdogMicros) * time.Microsecond
	}
	for _, f := range ListUnitFiles(n) {
		if path.Base(f.Path) == n.KubeletUnit() {
			timeout = 0
		}
		text, isSet := unitfile.Last(f.Text.Template(), "Service", "WatchdogSec")
		planned, isValid := unitfile.ParseTimespan(text)
		if isSet && (isValid || text == "") {
			timeout = planned
			at = f.FindDeclaration()
		}
	}
	if timeout == foreverWatchdog {
		return 0, at
	}

	return timeout, at
}

const foreverWatchdog = 1<<63 - 1
