package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/prelet/prelet/internal/kubelet"
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

// maxProcesses is the kernel's PID_MAX_LIMIT.
const maxProcesses = 1 << 22

// User namespaces of pods: the number of user IDs, and of those that a pod gets by default.
const (
	userIDs       = 1 << 32
	defaultPodIDs = 65536
	podIDsField   = "userNamespaces.idsPerPod"
)

// valueRules returns the rules about single values: numbers, words and their combinations.
func valueRules() []Rule {
	return []Rule{
		{
			ID:      "config-out-of-range",
			Lists:   true,
			Summary: "a number outside of its range",
			Source:  validation,
			check:   checkRanges,
		},
		{
			ID:    "config-many-pods",
			Lists: true,
			Summary: "more pods than there are user IDs for, `userNamespaces.idsPerPod` or 65536 for each, " +
				"or a number of IDs that does not divide 2^32",
			Since:  30,
			Source: "pkg/kubelet/userns/userns_manager.go, MakeUserNsManager",
			check:  checkUserIDs,
		},
		{
			ID:      "config-open-files",
			Summary: "fewer open files than the kubelet itself needs",
			Source:  "cmd/kubelet/app/server.go, RunKubelet; pkg/util/rlimit",
			check:   checkOpenFiles,
		},
		{
			ID:      "config-pod-pids",
			Lists:   true,
			Summary: "a limit of processes that the kernel cannot set",
			Effect:  Ignores,
			Source:  "pkg/kubelet/cm/cgroup_manager_linux.go, Create; Linux, kernel/cgroup/pids.c",
			check:   checkPodPIDs,
		},
		{
			ID:      "config-unknown-word",
			Lists:   true,
			Summary: "a word that is not one of the field's",
			Source:  validation,
			check:   checkWords,
		},
		{
			ID:      "config-cgroup-driver-word",
			Lists:   true,
			Summary: "an unknown cgroup driver",
			Effect:  Ignores,
			Source:  "cmd/kubelet/app/server.go, getCgroupDriverFromCRI",
			check:   checkDriverWord,
		},
		{
			ID:      "config-image-gc-order",
			Summary: "a low threshold for images that is not below the high one",
			Source:  validation,
			check:   checkImageThresholds,
		},
		{
			ID:      "config-parallel-pulls",
			Summary: "several image pulls at once, with serial pulls",
			Since:   27,
			Source:  validation,
			check:   checkParallelPulls,
		},
		{
			ID:      "config-event-rate",
			Summary: "an event rate of 0: no limit from 1.37 on, 5 per second before",
			Since:   37,
			Effect:  Differs,
			Source:  "cmd/kubelet/app/server.go, run; kubernetes#117119",
			check:   checkEventRate,
		},
		{
			ID:      "config-memory-throttling",
			Lists:   true,
			Summary: "a memory throttling factor outside of 0 to 1",
			Since:   22,
			Source:  validation,
			check:   checkThrottling,
		},
		{
			ID:      "config-memory-throttling-gate",
			Lists:   true,
			Summary: "a memory throttling factor without MemoryQoS, except 0.9, the old default",
			Since:   37,
			Source:  validation,
			check:   checkThrottlingGate,
		},
		{
			ID:      "config-ids-per-pod",
			Lists:   true,
			Summary: "user namespaces whose size is not a multiple of 65536",
			Since:   33,
			Source:  validationLinux,
			check:   checkIDsPerPod,
		},
	}
}

// numberRange is the range of a number. It includes a 0 that selects the default or disables something.
type numberRange struct {
	field    string
	flag     string // "": none
	min, max int64
	message  string
}

const (
	noMax        = math.MaxInt64
	notNegative  = "must not be a negative number"
	percentRange = "must be between 0 and 100, inclusive"
	bitRange     = "must be between 0 and 31, inclusive"
	portRange    = "must be between 1 and 65535, inclusive"
)

var ranges = []numberRange{
	{"maxPods", "max-pods", 0, noMax, notNegative},
	{"podsPerCore", "pods-per-core", 0, noMax, notNegative},
	{"maxOpenFiles", "max-open-files", 0, noMax, notNegative},
	{"eventBurst", "event-burst", 0, noMax, notNegative},
	{"eventRecordQPS", "event-qps", 0, noMax, notNegative},
	{"kubeAPIBurst", "kube-api-burst", 0, noMax, notNegative},
	{"kubeAPIQPS", "kube-api-qps", 0, noMax, notNegative},
	{"registryBurst", "registry-burst", 0, noMax, notNegative},
	{"registryPullQPS", "registry-qps", 0, noMax, notNegative},
	{"nodeStatusMaxImages", "node-status-max-images", -1, noMax, "must be -1 or greater"},
	{"imageGCHighThresholdPercent", "image-gc-high-threshold", 0, 100, percentRange},
	{"imageGCLowThresholdPercent", "image-gc-low-threshold", 0, 100, percentRange},
	{"oomScoreAdj", "oom-score-adj", -1000, 1000, "must be between -1000 and 1000, inclusive"},
	{"port", "port", 1, 65535, portRange},
	{"readOnlyPort", "read-only-port", 0, 65535, "must be between 0 and 65535, inclusive"},
	{"healthzPort", "healthz-port", 0, 65535, portRange},
	{"iptablesDropBit", "iptables-drop-bit", 0, 31, bitRange},
	{"iptablesMasqueradeBit", "iptables-masquerade-bit", 0, 31, bitRange},
	{"maxParallelImagePulls", "", 1, noMax, "must be a positive number"},
	{"nodeLeaseDurationSeconds", "", 0, noMax, "must be greater than 0"},
	{"containerLogMaxWorkers", "", 1, noMax, "must be greater than or equal to 1"},
	{"containerLogMaxFiles", "container-log-max-files", 2, noMax, "must be greater than 1"},
}

func checkRanges(c *checker) {
	for _, r := range ranges {
		c.startFinding()
		n, ok := c.numberAt(r.field)
		isDefaultPort := r.field == "port" && n == 0 && c.isZeroUnset("port")
		if !ok || isDefaultPort || n >= r.min && n <= r.max {
			continue
		}
		flag := ""
		if r.flag != "" {
			flag = " (--" + r.flag + ")"
		}
		c.reportField(r.field, "", "invalid configuration: %s%s %d %s", r.field, flag, n, r.message)
	}
}

// checkUserIDs reports a number of pods for which there are not enough user IDs.
func checkUserIDs(c *checker) {
	podIDs, _ := c.numberAt(podIDsField)
	isUsed := c.minor >= 35                          // before, the kubelet reads the field after it has divided the IDs
	if !isUsed || podIDs <= 0 || podIDs >= userIDs { // config-ids-per-pod reports it
		podIDs = defaultPodIDs
	}
	pods := c.numberOr("maxPods", kubelet.DefaultMaxPods)
	if !c.isGateOn("UserNamespacesSupport") {
		return
	}
	if exists, _ := c.exists("/usr/bin/getsubids"); exists { // it may give the kubelet fewer IDs
		c.severity = Warning
	}

	const hint = "remove it, or write 65536 times a power of 2"
	free := int64(userIDs) - podIDs
	_, isSet := c.numberAt("maxPods")
	switch {
	case free%podIDs != 0:
		c.reportField(podIDsField, hint, "create user namespace manager: "+
			"kubelet user assigned IDs length %d is not a multiple of %d", free, podIDs)
	case pods > free/podIDs && isSet:
		c.reportField("maxPods", fmt.Sprintf("at most %d; Kubernetes is tested with 110", free/podIDs),
			notEnoughIDs, pods)
	case pods > free/podIDs:
		c.reportField(podIDsField, hint, notEnoughIDs, pods)
	}
}

const notEnoughIDs = "create user namespace manager: kubelet user assigned IDs are not enough to support %d pods"

func checkOpenFiles(c *checker) {
	n := c.numberOr("maxOpenFiles", fewOpenFiles)
	if n < 0 || n >= fewOpenFiles {
		return
	}
	if n >= minOpenFiles {
		c.severity = Warning
	}
	c.reportField("maxOpenFiles", "write 1000000, which is the default",
		"too many open files: the kubelet and its pods need more than %d", n)
}

func checkPodPIDs(c *checker) {
	if n, _ := c.numberAt("podPidsLimit"); n > maxProcesses {
		c.reportField("podPidsLimit", "write at most 4194304, or -1 for no limit",
			"the kernel has no limit above 4194304: the kubelet runs, and pods have no limit")
	}
}

// fieldWords are the valid words of a field. Message is the kubelet's own text for an invalid word.
type fieldWords struct {
	field   string
	valid   []string
	message string
}

var words = []fieldWords{
	{"cpuManagerPolicy", []string{"none", "static"}, "unknown policy: %q"},
	{"memoryManagerPolicy", []string{"None", "Static"}, "unknown policy: %q"},
	{
		"topologyManagerPolicy",
		[]string{"none", "best-effort", "restricted", "single-numa-node"},
		"invalid configuration: topologyManagerPolicy (--topology-manager-policy) %q must be one of",
	},
	{
		"topologyManagerScope",
		[]string{"container", "pod"},
		"invalid configuration: topologyManagerScope (--topology-manager-scope) %q must be one of",
	},
	{
		"hairpinMode",
		[]string{"hairpin-veth", "promiscuous-bridge", "none"},
		"invalid configuration: option %q specified for hairpinMode (--hairpin-mode)",
	},
	{
		"configMapAndSecretChangeDetectionStrategy",
		[]string{"Get", "Cache", "Watch"},
		"unknown configmap and secret manager mode: %s",
	},
	{
		"imagePullCredentialsVerificationPolicy",
		[]string{
			"NeverVerify",
			"NeverVerifyPreloadedImages",
			"NeverVerifyAllowlistedImages",
			"AlwaysVerify",
		},
		"invalid configuration: option %q specified for imagePullCredentialsVerificationPolicy",
	},
	{
		"memoryReservationPolicy",
		[]string{"None", "TieredReservation"},
		"invalid configuration: option %q specified for memoryReservationPolicy",
	},
	{
		"tlsMinVersion",
		[]string{"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"},
		"unknown tls version %q",
	},
	{"authorization.mode", []string{"AlwaysAllow", "Webhook"}, "unknown authorization mode %s"},
	{
		"logging.format",
		[]string{"text", "json"},
		"logging.format: Invalid value: %q: Unsupported log format",
	},
}

// checkWords reports invalid words. An empty one selects the default unless a flag sets it.
func checkWords(c *checker) {
	for _, w := range words {
		c.checkWord(w.field, w.valid, w.message)
	}

	modes := []string{"LimitedSwap", "NoSwap"}
	if c.minor < 30 {
		modes = []string{"LimitedSwap", "UnlimitedSwap"}
	}
	c.checkWord("memorySwap.swapBehavior", modes, fmt.Sprintf("invalid configuration: "+
		"memorySwap.swapBehavior %%q must be one of: \"\", %q or %q", modes[0], modes[1]))
}

func (c *checker) checkWord(field string, valid []string, message string) {
	c.startFinding()
	word, isText := c.valueAt(field).(string)
	isUnset := word == "" && (c.isZeroUnset(field) || field == "tlsMinVersion")
	if isText && !isUnset && !slices.Contains(valid, word) {
		c.reportField(field, suggest(word, valid), message, word)
	}
}

func checkDriverWord(c *checker) {
	drivers := []string{"systemd", "cgroupfs"}
	driver := c.textAt("cgroupDriver")
	if driver != "" && !slices.Contains(drivers, driver) {
		c.reportField("cgroupDriver", suggest(driver, drivers), "cgroupDriver %q is unknown: "+
			"a runtime that reports its driver overrides it, with another runtime the kubelet exits", driver)
	}
}

func checkImageThresholds(c *checker) {
	high, isHighSet := c.numberAt("imageGCHighThresholdPercent")
	if !isHighSet {
		high = 85
	}
	field := "imageGCLowThresholdPercent"
	low, isLowSet := c.numberAt(field)
	if !isLowSet {
		low = 80
		field = "imageGCHighThresholdPercent"
	}
	if low >= high {
		c.reportField(field, "the defaults are 80 and 85", "invalid configuration: "+
			"imageGCLowThresholdPercent (--image-gc-low-threshold) %d must be less than "+
			"imageGCHighThresholdPercent (--image-gc-high-threshold) %d", low, high)
	}
}

// checkParallelPulls reports parallel pulls with serializeImagePulls, whose default depends on the field itself.
func checkParallelPulls(c *checker) {
	pulls, _ := c.numberAt("maxParallelImagePulls")
	if pulls > 1 && c.boolAt("serializeImagePulls", false) {
		c.reportField("maxParallelImagePulls", "set serializeImagePulls: false",
			"invalid configuration: "+
				"maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls "+
				"(--serialize-image-pulls) is set to false")
	}
}

func checkEventRate(c *checker) {
	if n, ok := c.numberAt("eventRecordQPS"); ok && n == 0 {
		c.reportField("eventRecordQPS", "write a limit, such as 5, or remove it for 50",
			"from 1.37 on 0 means unlimited; up to 1.36 it was 5 events per second")
	}
}

func checkThrottling(c *checker) {
	factor, ok := c.valueAt("memoryThrottlingFactor").(json.Number)
	f, err := factor.Float64()
	if ok && err == nil && (f <= 0 || f > 1) {
		c.reportField("memoryThrottlingFactor", "", "invalid configuration: "+
			"memoryThrottlingFactor %s must be greater than 0 and less than or equal to 1.0", factor)
	}
}

func checkThrottlingGate(c *checker) {
	factor, ok := c.valueAt("memoryThrottlingFactor").(json.Number)
	f, err := factor.Float64()
	if ok && err == nil && f != 0.9 && !c.isGateOn("MemoryQoS") {
		c.reportField("memoryThrottlingFactor", "set featureGates: {MemoryQoS: true}, or remove it",
			"invalid configuration: memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled")
	}
}

func checkIDsPerPod(c *checker) {
	n, ok := c.numberAt(podIDsField)
	why := ""
	switch {
	case n < defaultPodIDs:
		why = "must not be less than 65536"
	case n%defaultPodIDs != 0:
		why = "must be a multiple of 65536"
	case n >= userIDs:
		why = "must not be more than 4294967295"
	}
	if ok && why != "" {
		c.reportField(podIDsField, "", "invalid configuration: userNamespaces.idsPerPod %s", why)
	}
}
