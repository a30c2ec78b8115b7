package rules

import (
	"time"
)

// shortestTimeout is one that no runtime was seen to keep; 10 ms did for some.
const shortestTimeout = time.Millisecond

// timeRules mind durations and how they go with each other.
func timeRules() []Rule {
	return []Rule{
		{ID: "config-shutdown-grace", Minds: "periods of a shutdown that do not go together", Since: 21, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			whole, _ := l.duration("shutdownGracePeriod")
			critical, hasCritical := l.duration("shutdownGracePeriodCriticalPods")
			if hasCritical && critical > whole {
				l.field("shutdownGracePeriodCriticalPods", "critical pods end within shutdownGracePeriod, which holds both", "invalid configuration: shutdownGracePeriodCriticalPods %s must be <= shutdownGracePeriod %s", critical, whole)
			}
			for _, name := range []string{"shutdownGracePeriod", "shutdownGracePeriodCriticalPods"} {
				l.fresh()
				d, _ := l.duration(name)
				if d < 0 || d > 0 && d < time.Second {
					l.field(name, "", "invalid configuration: %s %s must be either zero or otherwise >= 1 sec", name, d)
				}
			}
			for _, name := range []string{"shutdownGracePeriod", "shutdownGracePeriodCriticalPods"} {
				l.fresh()
				if d, _ := l.duration(name); d > 0 && len(l.list("shutdownGracePeriodByPodPriority")) > 0 && l.gate("GracefulNodeShutdownBasedOnPodPriority") {
					l.field("shutdownGracePeriodByPodPriority", "keep one of the two", "invalid configuration: Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time")
					break
				}
			}
		}},
		{ID: "config-image-age", Minds: "a maximum age of images that is not above the minimum", Since: 29, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			oldest, has := l.duration("imageMaximumGCAge")
			least, set := l.duration("imageMinimumGCAge")
			if !set || least == 0 && l.zeroIsUnset("imageMinimumGCAge") {
				least = 2 * time.Minute
			}
			switch {
			case has && oldest < 0:
				l.fresh()
				l.field("imageMaximumGCAge", "", "invalid configuration: imageMaximumGCAge %s must not be negative", oldest)
			case oldest > 0 && oldest <= least:
				l.field("imageMaximumGCAge", "", "invalid configuration: imageMaximumGCAge %s must be greater than imageMinimumGCAge %s", oldest, least)
			}
			if l.fresh(); least < 0 && l.minor >= 36 {
				l.field("imageMinimumGCAge", "", "invalid configuration: imageMinimumGCAge %s must not be negative", least)
			}
		}},
		{ID: "config-sync-frequency", Minds: "a negative sync frequency", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/kubelet.go, NewMainKubelet", check: func(l *look) {
			if d, ok := l.duration("syncFrequency"); ok && (d < 0 || d == 0 && !l.zeroIsUnset("syncFrequency")) {
				l.field("syncFrequency", "", "invalid sync frequency %d", d)
			}
		}},
		{ID: "config-runtime-timeout", Minds: "a timeout of requests to the runtime in which none can answer", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/kubelet.go, PreInitRuntimeService; k8s.io/cri-client/pkg", check: func(l *look) {
			d, ok := l.duration("runtimeRequestTimeout")
			if !ok || d == 0 && l.zeroIsUnset("runtimeRequestTimeout") || d >= time.Second {
				return
			}
			if d <= 0 && l.minor >= 37 {
				l.field("runtimeRequestTimeout", "write 2m, which is the default", "connectionTimeout must be positive: the timeout is %s", d)
				return
			}
			if d > shortestTimeout {
				defer func(before Severity) { l.rule.Severity = before }(l.rule.Severity)
				l.rule.Severity = Warning
			}
			l.field("runtimeRequestTimeout", "write 2m, which is the default", "validate service connection: context deadline exceeded: no runtime answers each request within %s", d)
		}},
		{ID: "config-log-interval", Minds: "logs looked at more often than every 3 s", Since: 30, Does: Exits, Severity: Error, Alone: true, Source: validation, check: func(l *look) {
			if d, ok := l.duration("containerLogMonitorInterval"); ok && d < 3*time.Second {
				l.field("containerLogMonitorInterval", "", "invalid configuration: containerLogMonitorInterval must be a positive time duration greater than or equal to 3s")
			}
		}},
		{ID: "config-cfs-period", Minds: "a CFS period without its feature gate, or out of range", Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			d, ok := l.duration("cpuCFSQuotaPeriod")
			switch {
			case !ok || d == 100*time.Millisecond:
			case !l.gate("CustomCPUCFSQuotaPeriod"):
				l.field("cpuCFSQuotaPeriod", "set the feature gate CustomCPUCFSQuotaPeriod, or take it out", "invalid configuration: cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %s requires feature gate CustomCPUCFSQuotaPeriod", d)
			case d < time.Millisecond || d > time.Second:
				l.field("cpuCFSQuotaPeriod", "", "invalid configuration: cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %s must be between 1ms and 1sec, inclusive", d)
			}
		}},
		{ID: "config-crash-loop", Minds: "a restart period without its feature gate, or out of range", Since: 32, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			d, ok := l.duration("crashLoopBackOff", "maxContainerRestartPeriod")
			path := []string{"crashLoopBackOff", "maxContainerRestartPeriod"}
			switch {
			case !ok:
			case !l.gate("KubeletCrashLoopBackOffMax"):
				l.at(path, "set the feature gate, or take it out", "invalid configuration: FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set")
			case d.Milliseconds() < 1000 || d.Milliseconds() > 300000:
				l.at(path, "", "invalid configuration: CrashLoopBackOff.MaxContainerRestartPeriod (got: %v seconds) must be set between 1s and 300s", d.Seconds())
			}
		}},
	}
}
