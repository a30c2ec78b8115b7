package rules

import "time"

// minTimeout is a timeout that no runtime was seen to meet; some met 10 ms.
const minTimeout = time.Millisecond

// durationRules returns the rules about durations.
func durationRules() []Rule {
	return []Rule{
		{
			ID:      "config-shutdown-grace",
			Lists:   true,
			Summary: "periods of a shutdown that contradict each other",
			Since:   21,
			Source:  validation,
			check:   checkShutdownPeriods,
		},
		{
			ID:      "config-image-age",
			Lists:   true,
			Summary: "a maximum age of images that is not above the minimum",
			Since:   29,
			Source:  validation,
			check:   checkImageAge,
		},
		{
			ID:      "config-sync-frequency",
			Lists:   true,
			Summary: "a negative sync frequency",
			Source:  "pkg/kubelet/kubelet.go, NewMainKubelet",
			check:   checkSyncFrequency,
		},
		{
			ID:      "config-runtime-timeout",
			Lists:   true,
			Summary: "a timeout of runtime requests that is too short for any response",
			Source:  "pkg/kubelet/kubelet.go, PreInitRuntimeService; k8s.io/cri-client/pkg",
			check:   checkRuntimeTimeout,
		},
		{
			ID:      "config-log-interval",
			Lists:   true,
			Summary: "logs monitored more often than every 3 s",
			Since:   30,
			Source:  validation,
			check:   checkLogInterval,
		},
		{
			ID:      "config-cfs-period",
			Lists:   true,
			Summary: "a CFS period without its feature gate, or out of range",
			Source:  validation,
			check:   checkCFSPeriod,
		},
		{
			ID:      "config-crash-loop",
			Lists:   true,
			Summary: "a restart period without its feature gate, or out of range",
			Since:   32,
			Source:  validation,
			check:   checkRestartPeriod,
		},
	}
}

func checkShutdownPeriods(c *checker) {
	const (
		whole    = "shutdownGracePeriod"
		critical = "shutdownGracePeriodCriticalPods"
		byPod    = "shutdownGracePeriodByPodPriority"
	)
	wholePeriod, _ := c.durationAt(whole)
	criticalPeriod, hasCritical := c.durationAt(critical)
	if hasCritical && criticalPeriod > wholePeriod {
		c.reportField(critical, "shutdownGracePeriod includes the period of critical pods",
			"invalid configuration: "+
				"shutdownGracePeriodCriticalPods %s must be <= shutdownGracePeriod %s", criticalPeriod,
			wholePeriod)
	}

	for _, field := range []string{whole, critical} {
		c.startFinding()
		period, _ := c.durationAt(field)
		if period < time.Second && period != 0 {
			c.reportField(field, "",
				"invalid configuration: %s %s must be either zero or otherwise >= 1 sec", field, period)
		}
		hasBoth := period > 0 && len(c.listAt(byPod)) > 0
		if hasBoth && c.isGateOn("GracefulNodeShutdownBasedOnPodPriority") {
			c.reportField(byPod, "keep one of the two", "invalid configuration: "+
				"Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time")
		}
	}
}

func checkImageAge(c *checker) {
	const field = "imageMaximumGCAge"
	maxAge, _ := c.durationAt(field)
	if maxAge < 0 {
		c.reportField(field, "", "invalid configuration: imageMaximumGCAge %s must not be negative", maxAge)
	}
	minAge := c.durationOr("imageMinimumGCAge", 2*time.Minute)
	if maxAge > 0 && maxAge <= minAge {
		c.reportField(field, "", "invalid configuration: "+
			"imageMaximumGCAge %s must be greater than imageMinimumGCAge %s", maxAge, minAge)
	}
	c.startFinding()
	if minAge < 0 && c.minor >= 36 {
		c.reportField("imageMinimumGCAge", "",
			"invalid configuration: imageMinimumGCAge %s must not be negative", minAge)
	}
}

func checkSyncFrequency(c *checker) {
	if d := c.durationOr("syncFrequency", time.Minute); d <= 0 {
		c.reportField("syncFrequency", "", "invalid sync frequency %d", d)
	}
}

func checkRuntimeTimeout(c *checker) {
	const field = "runtimeRequestTimeout"
	const hint = "write 2m, which is the default"
	timeout := c.durationOr(field, 2*time.Minute)
	switch {
	case timeout >= time.Second:
	case timeout <= 0 && c.minor >= 37:
		c.reportField(field, hint, "connectionTimeout must be positive: the timeout is %s", timeout)
	default:
		if timeout > minTimeout {
			c.severity = Warning
		}
		c.reportField(field, hint, "validate service connection: context deadline exceeded: "+
			"no runtime responds to each request within %s", timeout)
	}
}

func checkLogInterval(c *checker) {
	const field = "containerLogMonitorInterval"
	if d, ok := c.durationAt(field); ok && d < 3*time.Second {
		c.reportField(field, "", "invalid configuration: "+
			"containerLogMonitorInterval must be a positive time duration greater than or equal to 3s")
	}
}

func checkCFSPeriod(c *checker) {
	const field = "cpuCFSQuotaPeriod"
	period, ok := c.durationAt(field)
	switch {
	case !ok || period == 100*time.Millisecond:
	case !c.isGateOn("CustomCPUCFSQuotaPeriod"):
		c.reportField(field, "set the feature gate CustomCPUCFSQuotaPeriod, or remove it",
			"invalid configuration: "+
				"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %s requires feature gate CustomCPUCFSQuotaPeriod",
			period)
	case period < time.Millisecond || period > time.Second:
		c.reportField(field, "", "invalid configuration: "+
			"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %s must be between 1ms and 1sec, inclusive", period)
	}
}

func checkRestartPeriod(c *checker) {
	const field = "crashLoopBackOff.maxContainerRestartPeriod"
	period, ok := c.durationAt(field)
	isInRange := period.Milliseconds() >= 1000 && period.Milliseconds() <= 300000
	switch {
	case !ok:
	case !c.isGateOn("KubeletCrashLoopBackOffMax"):
		c.reportField(field, "set the feature gate, or remove it",
			"invalid configuration: FeatureGate "+
				"KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set")
	case !isInRange:
		c.reportField(field, "", "invalid configuration: "+
			"CrashLoopBackOff.MaxContainerRestartPeriod (got: %v seconds) must be set between 1s and 300s",
			period.Seconds())
	}
}
