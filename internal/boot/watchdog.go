package boot

import (
	"path"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/quantity"
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

// checkWatchdog reports a WatchdogSec= of the kubelet's unit with which the installed kubelet is killed again and
// again. In a recording that is older than the answer the unit has none.
func (j ruleCheck) checkWatchdog() {
	timeout, at := j.findWatchdog()
	version := j.basis.Kubelet.KnownVersion()
	minor, isKnown := known.Minor(version)
	if !isKnown || timeout <= 0 {
		return
	}

	isOn, isGateKnown := rules.IsGateOn(j.effective, "SystemdWatchdog")
	isOff := isGateKnown && !isOn && minor < watchdogLocked
	switch {
	case minor < watchdogSince || isOff:
		why := "kubelets do so from 1.32 on"
		if isOff {
			why = "the feature gate SystemdWatchdog is off"
		}

		j.Warn(
			fault.KubeletMachine, at, "systemd would kill the kubelet",
			"%s has WatchdogSec=%s, and %s does not report to the watchdog (%s): systemd kills it after that time, "+
				"again and again. Remove WatchdogSec= from the unit's drop-ins, or set it to 0 in a later one.",
			j.node.KubeletUnit(), timeout, version, why,
		)
	case timeout <= shortestWatchdog:
		j.Error(
			fault.KubeletMachine, at, "The kubelet would not start with its watchdog",
			"configure watchdog timeout too small: %s has WatchdogSec=%s, and a kubelet needs more than %s. "+
				"Write WatchdogSec=30s, or remove it.",
			j.node.KubeletUnit(), timeout, shortestWatchdog,
		)
	}
}

// findWatchdog returns the WatchdogSec= of the kubelet's unit, and where the site sets it: that of a planned file, or
// else what systemd has loaded. 0: none, or not known. Of a planned unit, drop-ins of the disk are not known.
func (j ruleCheck) findWatchdog() (timeout time.Duration, at hcl.Range) {
	unit := j.node.KubeletUnit()
	at = findWriterRange(j.site)
	if s := j.basis.Start; s != nil {
		timeout = time.Duration(s.WatchdogMicros) * time.Microsecond
	}

	for _, f := range listUnitFiles(j.node) {
		if path.Base(f.Path) == unit {
			timeout = 0
		}
		text, isSet := unitfile.Last(f.Text.Template(), "Service", "WatchdogSec")
		planned, isValid := quantity.ParseTimespan(text)
		if isSet && (isValid || text == "") {
			timeout = planned
			at = findDeclaration(f)
		}
	}
	if timeout == foreverWatchdog {
		return 0, at
	}

	return timeout, at
}

// foreverWatchdog is WatchdogSec=infinity.
const foreverWatchdog = 1<<63 - 1
