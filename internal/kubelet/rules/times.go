package rules

import (
	"fmt"
	"strconv"
	"time"
)

const (
	wholePeriod    = "shutdownGracePeriod"
	criticalPeriod = "shutdownGracePeriodCriticalPods"
	periodsByPod   = "shutdownGracePeriodByPodPriority"
	minAge         = "imageMinimumGCAge"
	maxAge         = "imageMaximumGCAge"
	cfsPeriod      = "cpuCFSQuotaPeriod"
	cfsGate        = "CustomCPUCFSQuotaPeriod"
	restartPeriod  = "crashLoopBackOff.maxContainerRestartPeriod"
	restartGate    = "KubeletCrashLoopBackOffMax"
)

// durationRules returns the rules about durations.
func durationRules() []Rule {
	return []Rule{
		lists(exits("config-shutdown-grace", 21, "periods of a shutdown that contradict each other", validation,
			invalid(criticalPeriod, isAboveWhole, "shutdownGracePeriod includes the period of critical pods",
				"shutdownGracePeriodCriticalPods {duration} must be <= shutdownGracePeriod {why}"),
			invalid(wholePeriod+" "+criticalPeriod,
				isDuration(func(d time.Duration) bool { return d != 0 && d < time.Second }), "",
				"{field} {duration} must be either zero or otherwise >= 1 sec"),
			invalid(wholePeriod+" "+criticalPeriod, isSetByPodToo, "keep one of the two",
				"Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"))),

		lists(exits("config-image-age", 29, "a maximum age of images that is not above the minimum", validation,
			invalid(maxAge, isNegative, "", "imageMaximumGCAge {duration} must not be negative"),
			invalid(maxAge, isBelowMinAge, "", "{field} {duration} must be greater than imageMinimumGCAge {why}"),
			invalid(minAge, func(v value) bool { return v.minor >= 36 && isNegative(v) }, "",
				"imageMinimumGCAge {duration} must not be negative"))),

		lists(exits("config-sync-frequency", 0, "a negative sync frequency", "pkg/kubelet/kubelet.go, NewMainKubelet",
			at("syncFrequency", isNoFrequency, "", "invalid sync frequency {why}"))),

		lists(exits("config-runtime-timeout", 0, "a timeout of runtime requests that is too short for any response",
			"pkg/kubelet/kubelet.go, PreInitRuntimeService; k8s.io/cri-client/pkg",
			at("runtimeRequestTimeout", isShortTimeout, "write 2m, which is the default", ""))),

		lists(exits("config-log-interval", 30, "logs monitored more often than every 3 s", validation,
			invalid("containerLogMonitorInterval",
				isDuration(func(d time.Duration) bool { return d < 3*time.Second }), "",
				"{field} must be a positive time duration greater than or equal to 3s"))),

		lists(exits("config-cfs-period", 0, "a CFS period without its feature gate, or out of range", validation,
			needsGate(cfsGate, cfsPeriod, isDuration(func(d time.Duration) bool { return d != 100*time.Millisecond }),
				"{field} ({flag}) {duration} requires feature gate CustomCPUCFSQuotaPeriod"),
			invalid(cfsPeriod, isOutside(cfsGate, time.Millisecond, time.Second), "",
				"{field} ({flag}) {duration} must be between 1ms and 1sec, inclusive"))),

		lists(exits("config-crash-loop", 32, "a restart period without its feature gate, or out of range", validation,
			needsGate(restartGate, restartPeriod, isDuration(func(time.Duration) bool { return true }), "FeatureGate "+
				"KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set"),
			invalid(restartPeriod, isOutside(restartGate, time.Second, 300*time.Second), "",
				"CrashLoopBackOff.MaxContainerRestartPeriod (got: {why} seconds) must be set between 1s and 300s"))),
	}
}

func isDuration(isBad func(time.Duration) bool) func(value) bool {
	return func(v value) bool {
		d, ok := v.duration()

		return ok && isBad(d)
	}
}

// isOutside is a condition of a period that needs a feature gate.
func isOutside(gate string, least, most time.Duration) func(value) bool {
	return func(v value) bool {
		d, ok := v.duration()
		v.why = fmt.Sprint(d.Seconds())

		return ok && v.isGateOn(gate) && (d < least || d > most)
	}
}

func isAboveWhole(v value) bool {
	critical, isSet := v.duration()
	whole := v.durationOf(wholePeriod)
	v.why = whole.String()

	return isSet && critical > whole
}

func isSetByPodToo(v value) bool {
	d, _ := v.duration()
	v.place = periodsByPod

	return d > 0 && len(v.listOf(periodsByPod)) > 0 && v.isGateOn("GracefulNodeShutdownBasedOnPodPriority")
}

func isBelowMinAge(v value) bool {
	longest, _ := v.duration()
	least := v.durationOf(minAge)
	v.why = least.String()

	return longest > 0 && longest <= least
}

func isNoFrequency(v value) bool {
	d := v.durationOf("syncFrequency")
	v.why = strconv.FormatInt(int64(d), 10)

	return d <= 0
}

// isShortTimeout reports a timeout below 1 s. Below 1 ms no runtime was seen to meet it; some met 10 ms.
func isShortTimeout(v value) bool {
	timeout := v.durationOf("runtimeRequestTimeout")
	switch {
	case timeout >= time.Second:
		return false
	case timeout <= 0 && v.minor >= 37:
		return v.because("", "connectionTimeout must be positive: the timeout is %s", timeout)
	case timeout > time.Millisecond:
		v.severity = Warning
	}

	return v.because("", "validate service connection: context deadline exceeded: "+
		"no runtime responds to each request within %s", timeout)
}
