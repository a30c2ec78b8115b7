package rules

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// isKilledAtShutdown reports a graceful shutdown for which logind does not wait: then the kubelet runs without its node
// shutdown manager, and a shutdown kills all pods at once. Where logind's delay is too short, the kubelet writes a
// drop-in itself, so only what keeps that from working is reported.
func isKilledAtShutdown(v value) bool {
	field, period := v.shutdownPeriod()
	if period <= 0 || v.Machine.Logind == nil || !v.isGateOn("GracefulNodeShutdown") {
		return false
	}
	l, isKnown := v.Machine.Logind()
	v.place = field

	hint := fmt.Sprintf("write the file block %s with InhibitDelayMaxSec=%d in [Login]", l.laterName(), seconds(period))
	const effect = "the kubelet runs without graceful shutdown, and a shutdown of the node kills its pods"
	switch {
	case !isKnown:
	case l.Missing:
		return v.because("install systemd-logind, or remove "+field,
			"nothing delays a shutdown: systemd-logind is not installed or masked, so %s", effect)
	case l.Delay >= period:
	case l.Later != "" && l.LaterDelay < period:
		return v.because(hint, "logind delays a shutdown by %s at most, and %s needs %s: %s is read after the "+
			"kubelet's own 99-kubelet.conf, so %s", l.LaterDelay, field, period, l.Later, effect)
	case l.Later == "" && l.ReadOnly && l.Delay > 0:
		return v.because(hint+" of the image", "logind delays a shutdown by %s at most, and %s needs %s: the kubelet "+
			"cannot write its drop-in, because /etc/systemd is on a read-only file system, so %s", l.Delay, field,
			period, effect)
	}

	return false
}

// laterName returns a drop-in that logind reads after its present ones. It reads them in the order of their names.
func (l Logind) laterName() string {
	const kubelets = "zz-kubelet.conf"
	name := kubelets
	if last := path.Base(l.Later); l.Later != "" && last >= kubelets {
		name = strings.TrimSuffix(last, ".conf") + "z-kubelet.conf"
	}

	return "/etc/systemd/logind.conf.d/" + name
}

// shutdownPeriod returns how long the kubelet delays a shutdown, and the field that sets it. 0: it does not.
func (c *checker) shutdownPeriod() (field string, period time.Duration) {
	list := c.listOf(periodsByPod)
	if len(list) == 0 || !c.isGateOn("GracefulNodeShutdownBasedOnPodPriority") {
		return wholePeriod, c.durationOf(wholePeriod)
	}
	for _, v := range list {
		n, _ := parseNumber(dig(v, "shutdownGracePeriodSeconds"))
		period += time.Duration(n) * time.Second
	}

	return periodsByPod, period
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
