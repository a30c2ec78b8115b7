package rules

import (
	"encoding/json"
	"fmt"
)

const (
	validation      = "pkg/kubelet/apis/config/validation/validation.go"
	validationLinux = "pkg/kubelet/apis/config/validation/validation_linux.go"
)

// Limits of open files, measured: a kubelet v1.36.3 does not start with 10 and starts with 30; its pods need more.
const (
	minOpenFiles = 16
	fewOpenFiles = 1024
)

// User namespaces of pods: the number of user IDs, and of those that a pod gets by default.
const (
	userIDs       = 1 << 32
	defaultPodIDs = 65536
	podIDsField   = "userNamespaces.idsPerPod"
)

const (
	portRange  = "{field} ({flag}) {value} must be between 1 and 65535, inclusive"
	throttling = "memoryThrottlingFactor"
)

// valueRules returns the rules about single values: numbers, words and their combinations.
func valueRules() []Rule {
	return []Rule{
		lists(exits("config-out-of-range", 0, "a number outside of its range", validation,
			within("maxPods podsPerCore maxOpenFiles eventBurst eventRecordQPS kubeAPIBurst kubeAPIQPS registryBurst "+
				"registryPullQPS", 0, noMax, "{field} ({flag}) {value} must not be a negative number"),
			within("nodeStatusMaxImages", -1, noMax, "{field} ({flag}) {value} must be -1 or greater"),
			within("imageGCHighThresholdPercent imageGCLowThresholdPercent", 0, 100,
				"{field} ({flag}) {value} must be between 0 and 100, inclusive"),
			within("oomScoreAdj", -1000, 1000, "{field} ({flag}) {value} must be between -1000 and 1000, inclusive"),
			within("port healthzPort", 0, 65535, portRange),
			invalid("port", func(v value) bool { return isZero(v) && !v.isZeroUnset("port") }, "", portRange),
			within("readOnlyPort", 0, 65535, "{field} ({flag}) {value} must be between 0 and 65535, inclusive"),
			within("iptablesDropBit", 0, 31,
				"{field} (--iptables-drop-bit) {value} must be between 0 and 31, inclusive"),
			within("iptablesMasqueradeBit", 0, 31,
				"{field} (--iptables-masquerade-bit) {value} must be between 0 and 31, inclusive"),
			within("maxParallelImagePulls", 1, noMax, "{field} {value} must be a positive number"),
			within("nodeLeaseDurationSeconds", 0, noMax, "{field} {value} must be greater than 0"),
			within("containerLogMaxWorkers", 1, noMax, "{field} {value} must be greater than or equal to 1"),
			within("containerLogMaxFiles", 2, noMax, "{field} ({flag}) {value} must be greater than 1"))),

		lists(exits("config-many-pods", 30,
			"more pods than there are user IDs for, `userNamespaces.idsPerPod` or 65536 for each, or a number of IDs "+
				"that does not divide 2^32",
			"pkg/kubelet/userns/userns_manager.go, MakeUserNsManager",
			at(podIDsField, lacksUserIDs, "", "create user namespace manager: kubelet user assigned IDs {why}"))),

		exits("config-open-files", 0, "fewer open files than the kubelet itself needs",
			"cmd/kubelet/app/server.go, RunKubelet; pkg/util/rlimit",
			at("maxOpenFiles", hasFewFiles, "write 1000000, which is the default",
				"too many open files: the kubelet and its pods need more than {value}")),

		lists(ignores("config-pod-pids", 0, "a limit of processes that the kernel cannot set",
			"pkg/kubelet/cm/cgroup_manager_linux.go, Create; Linux, kernel/cgroup/pids.c",
			at("podPidsLimit", above(4194304), "write at most 4194304, or -1 for no limit",
				"the kernel has no limit above 4194304: the kubelet runs, and pods have no limit"))),

		lists(exits("config-unknown-word", 0, "a word that is not one of the field's", validation,
			oneOf("cpuManagerPolicy", `unknown policy: "{value}"`, "none", "static"),
			oneOf("memoryManagerPolicy", `unknown policy: "{value}"`, "None", "Static"),
			oneOf("topologyManagerPolicy", `invalid configuration: {field} ({flag}) "{value}" must be one of`,
				"none", "best-effort", "restricted", "single-numa-node"),
			oneOf("topologyManagerScope", `invalid configuration: {field} ({flag}) "{value}" must be one of`,
				"container", "pod"),
			oneOf("hairpinMode", `invalid configuration: option "{value}" specified for {field} ({flag})`,
				"hairpin-veth", "promiscuous-bridge", "none"),
			oneOf("configMapAndSecretChangeDetectionStrategy", "unknown configmap and secret manager mode: {value}",
				"Get", "Cache", "Watch"),
			oneOf(pullPolicy, `invalid configuration: option "{value}" specified for {field}`,
				"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"),
			oneOf("memoryReservationPolicy", `invalid configuration: option "{value}" specified for {field}`,
				"None", "TieredReservation"),
			oneOf("tlsMinVersion", `unknown tls version "{value}"`,
				"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
			oneOf("authorization.mode", "unknown authorization mode {value}", "AlwaysAllow", "Webhook"),
			oneOf("logging.format", `logging.format: Invalid value: "{value}": Unsupported log format`, "text", "json"),
			invalid("memorySwap.swapBehavior", isUnknownSwap, "", `{field} "{value}" must be one of: "", {why}`))),

		lists(ignores("config-cgroup-driver-word", 0, "an unknown cgroup driver",
			"cmd/kubelet/app/server.go, getCgroupDriverFromCRI",
			oneOf("cgroupDriver", `cgroupDriver "{value}" is unknown: `+
				"a runtime that reports its driver overrides it, with another runtime the kubelet exits",
				"systemd", "cgroupfs"))),

		exits("config-image-gc-order", 0, "a low threshold for images that is not below the high one", validation,
			invalid("imageGCLowThresholdPercent", isAboveHighThreshold, "the defaults are 80 and 85",
				"{why}")),

		exits("config-parallel-pulls", 27, "several image pulls at once, with serial pulls", validation,
			invalid("maxParallelImagePulls",
				func(v value) bool { return above(1)(v) && v.valueAt("serializeImagePulls") == true },
				"set serializeImagePulls: false", "maxParallelImagePulls cannot be larger than 1 unless "+
					"SerializeImagePulls (--serialize-image-pulls) is set to false")),

		row(Differs, Warning, "config-event-rate", 37,
			"an event rate of 0: no limit from 1.37 on, 5 per second before",
			"cmd/kubelet/app/server.go, run; kubernetes#117119",
			at("eventRecordQPS", isZero, "write a limit, such as 5, or remove it for 50",
				"from 1.37 on 0 means unlimited; up to 1.36 it was 5 events per second")),

		lists(exits("config-memory-throttling", 22, "a memory throttling factor outside of 0 to 1", validation,
			invalid(throttling, isFactor(func(f float64) bool { return f <= 0 || f > 1 }), "",
				"memoryThrottlingFactor {value} must be greater than 0 and less than or equal to 1.0"))),

		lists(exits("config-memory-throttling-gate", 37,
			"a memory throttling factor without MemoryQoS, except 0.9, the old default", validation,
			needsGate("MemoryQoS", throttling, isFactor(func(f float64) bool { return f != 0.9 }),
				"memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"))),

		lists(exits("config-ids-per-pod", 33, "user namespaces whose size is not a multiple of 65536", validationLinux,
			invalid(podIDsField, isBadPodIDs, "", "userNamespaces.idsPerPod {why}"))),
	}
}

func isZero(v value) bool {
	n, ok := v.number()

	return ok && n == 0
}

func isFactor(isBad func(float64) bool) func(value) bool {
	return func(v value) bool {
		number, isNumber := v.raw.(json.Number)
		f, err := number.Float64()

		return isNumber && err == nil && isBad(f)
	}
}

// lacksUserIDs reports a number of pods for which there are not enough user IDs.
func lacksUserIDs(v value) bool {
	podIDs, _ := v.number()
	isUsed := v.minor >= 35                          // before, the kubelet reads the field after it has divided the IDs
	if !isUsed || podIDs <= 0 || podIDs >= userIDs { // config-ids-per-pod reports it
		podIDs = defaultPodIDs
	}
	pods := v.positiveOf("maxPods")
	if !v.isGateOn("UserNamespacesSupport") {
		return false
	}
	if exists, _ := v.exists("/usr/bin/getsubids"); exists { // it may give the kubelet fewer IDs
		v.severity = Warning
	}

	const hint = "remove it, or write 65536 times a power of 2"
	free := int64(userIDs) - podIDs
	switch {
	case free%podIDs != 0:
		return v.because(hint, "length %d is not a multiple of %d", free, podIDs)
	case pods <= free/podIDs:
		return false
	case v.valueAt("maxPods") == nil:
		return v.because(hint, "are not enough to support %d pods", pods)
	}
	v.place = "maxPods"
	most := fmt.Sprintf("at most %d; Kubernetes is tested with 110", free/podIDs)

	return v.because(most, "are not enough to support %d pods", pods)
}

func hasFewFiles(v value) bool {
	n := v.positiveOf("maxOpenFiles")
	if n >= minOpenFiles {
		v.severity = Warning
	}

	return n >= 0 && n < fewOpenFiles
}

func isUnknownSwap(v value) bool {
	modes := []string{"LimitedSwap", "NoSwap"}
	if v.minor < 30 {
		modes = []string{"LimitedSwap", "UnlimitedSwap"}
	}
	v.why = fmt.Sprintf("%q or %q", modes[0], modes[1])

	return hasText(v) && v.isOther(v.text(), modes)
}

func isAboveHighThreshold(v value) bool {
	if v.raw == nil {
		v.place = "imageGCHighThresholdPercent"
	}

	low, high := v.numberOf("imageGCLowThresholdPercent"), v.numberOf("imageGCHighThresholdPercent")

	return low >= high && v.because("", "imageGCLowThresholdPercent (--image-gc-low-threshold) %d must be less than "+
		"imageGCHighThresholdPercent (--image-gc-high-threshold) %d", low, high)
}

func isBadPodIDs(v value) bool {
	n, ok := v.number()
	switch {
	case !ok:
	case n < defaultPodIDs:
		return v.because("", "must not be less than 65536")
	case n%defaultPodIDs != 0:
		return v.because("", "must be a multiple of 65536")
	case n >= userIDs:
		return v.because("", "must not be more than 4294967295")
	}

	return false
}
