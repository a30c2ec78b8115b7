package rules

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// checkShutdownDelay reports a graceful shutdown for which logind does not wait: then the kubelet runs without its node
// shutdown manager, and a shutdown kills all pods at once. Where logind's delay is too short, the kubelet writes a
// drop-in itself, so only what keeps that from working is reported.
func checkShutdownDelay(c *checker, m *Machine) {
	field, period := c.shutdownPeriod()
	if period <= 0 || m.Logind == nil || !c.isGateOn("GracefulNodeShutdown") {
		return
	}
	l, isKnown := m.Logind()
	if !isKnown {
		return
	}

	hint := fmt.Sprintf("write the file block %s with InhibitDelayMaxSec=%d in [Login]", l.laterName(), seconds(period))
	const effect = "the kubelet runs without graceful shutdown, and a shutdown of the node kills its pods"
	switch {
	case l.Missing:
		c.reportField(field, "install systemd-logind, or remove "+field,
			"nothing delays a shutdown: systemd-logind is not installed or masked, so %s", effect)
	case l.Delay >= period:
	case l.Later != "" && l.LaterDelay < period:
		c.reportField(field, hint,
			"logind delays a shutdown by %s at most, and %s needs %s: %s is read after the kubelet's own "+
				"99-kubelet.conf, so %s", l.LaterDelay, field, period, l.Later, effect)
	case l.Later == "" && l.ReadOnly && l.Delay > 0:
		c.reportField(field, hint+" of the image",
			"logind delays a shutdown by %s at most, and %s needs %s: the kubelet cannot write its drop-in, because "+
				"/etc/systemd is on a read-only file system, so %s", l.Delay, field, period, effect)
	}
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
	const byPod = "shutdownGracePeriodByPodPriority"
	if list := c.listAt(byPod); len(list) > 0 && c.isGateOn("GracefulNodeShutdownBasedOnPodPriority") {
		for _, v := range list {
			entry, _ := v.(map[string]any)
			n, _ := parseNumber(entry["shutdownGracePeriodSeconds"])
			period += time.Duration(n) * time.Second
		}

		return byPod, period
	}

	whole, _ := c.durationAt("shutdownGracePeriod")

	return "shutdownGracePeriod", whole
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
