package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
)

const validation = "pkg/kubelet/apis/config/validation/validation.go"

// text, number and the like are values of a field whose type is right. Others are reported as wrong types, and no rule
// minds them.
func (l *look) text(name string) string {
	s, _ := l.inner(name).(string)
	return s
}

// inner is a value below the root, nil where there is none.
func (l *look) inner(path ...string) any {
	l.reads(path)
	var at any = l.doc
	for _, name := range path {
		m, _ := at.(map[string]any)
		at = m[name]
	}
	return at
}

// entry is one member of an object of texts. Of a part of a configuration it may be known where the object is not.
func (l *look) entry(object, name string) (value string, ok bool) {
	value, ok = l.inner(object, name).(string)
	return value, ok
}

// stringMap are the members of an object of texts, to look at each. That one is not among them is for entry to say.
func (l *look) stringMap(name string) map[string]string {
	object, _ := l.doc[name].(map[string]any)
	m := map[string]string{}
	for key, v := range object {
		if s, ok := textOrNull(v); ok {
			m[key] = s
		}
	}
	return m
}

// textOrNull is a member of an object, or an element of a list, of texts: null there decodes to an empty one.
func textOrNull(v any) (string, bool) {
	s, ok := v.(string)
	return s, ok || v == nil
}

func (l *look) list(name string) []any {
	list, _ := l.inner(name).([]any)
	return list
}

func (l *look) number(path ...string) (int64, bool) { return l.numberOf(l.inner(path...)) }

func (l *look) numberOf(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

func (l *look) boolean(name string, preset bool) bool {
	if b, ok := l.inner(name).(bool); ok {
		return b
	}
	return preset
}

func (l *look) duration(path ...string) (time.Duration, bool) {
	s, ok := l.inner(path...).(string)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ranges are numbers: the field, its flag, the least, the most, what 0 is where it is below the least ("unset": in a file it
// stands for the default, "off": it turns something off), and the words. Of a field that is a pointer 0 is a number.
const ranges = `maxPods max-pods 0 - - must not be a negative number
podsPerCore pods-per-core 0 - - must not be a negative number
maxOpenFiles max-open-files 0 - - must not be a negative number
eventBurst event-burst 0 - - must not be a negative number
eventRecordQPS event-qps 0 - - must not be a negative number
kubeAPIBurst kube-api-burst 0 - - must not be a negative number
kubeAPIQPS kube-api-qps 0 - - must not be a negative number
registryBurst registry-burst 0 - - must not be a negative number
registryPullQPS registry-qps 0 - - must not be a negative number
nodeStatusMaxImages node-status-max-images -1 - - must be -1 or greater
imageGCHighThresholdPercent image-gc-high-threshold 0 100 - must be between 0 and 100, inclusive
imageGCLowThresholdPercent image-gc-low-threshold 0 100 - must be between 0 and 100, inclusive
oomScoreAdj oom-score-adj -1000 1000 - must be between -1000 and 1000, inclusive
port port 1 65535 unset must be between 1 and 65535, inclusive
readOnlyPort read-only-port 1 65535 off must be between 0 and 65535, inclusive
healthzPort healthz-port 1 65535 off must be between 1 and 65535, inclusive
iptablesDropBit iptables-drop-bit 0 31 - must be between 0 and 31, inclusive
iptablesMasqueradeBit iptables-masquerade-bit 0 31 - must be between 0 and 31, inclusive
maxParallelImagePulls - 1 - - must be a positive number
nodeLeaseDurationSeconds - 1 - unset must be greater than 0
containerLogMaxWorkers - 1 - - must be greater than or equal to 1
containerLogMaxFiles container-log-max-files 2 - - must be greater than 1`

func (l *look) ranges() {
	for line := range strings.Lines(ranges) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 6)
		n, ok := l.number(f[0])
		low, _ := strconv.ParseInt(f[2], 10, 64)
		high, err := strconv.ParseInt(f[3], 10, 64)
		if !ok || n >= low && (n <= high || err != nil) || n == 0 && (f[4] == "off" || f[4] == "unset" && l.zeroIsUnset(f[0])) {
			continue
		}
		flag := ""
		if f[1] != "-" {
			flag = " (--" + f[1] + ")"
		}
		l.field(f[0], "", "invalid configuration: %s%s %d %s", f[0], flag, n, f[5])
	}
}

// A kubelet v1.36.3 does not come up with 10 open files, and does with 30; pods need more.
const (
	leastOpenFiles = 16
	fewOpenFiles   = 1024
)

func valueRules() []Rule {
	return []Rule{
		{ID: "config-out-of-range", Minds: "a number outside of its range", Does: Exits, Severity: Error, Alone: true, Source: validation, check: (*look).ranges},
		{ID: "config-many-pods", Minds: "more pods than there are user IDs for, `userNamespaces.idsPerPod` or 65536 for each, or a number of IDs that does not divide 2^32", Since: 30, Does: Exits, Severity: Error, Source: "pkg/kubelet/userns/userns_manager.go, MakeUserNsManager", check: func(l *look) {
			ids, set := l.number("userNamespaces", "idsPerPod")
			if !set || ids <= 0 || ids > 1<<32-1 { // config-ids-per-pod reports the others
				ids = 65536
			}
			n, ok := l.number("maxPods")
			if !ok || n == 0 && l.zeroIsUnset("maxPods") {
				n = kubelet.DefaultMaxPods
			}
			if !l.gate("UserNamespacesSupport") {
				return
			}
			if l.Machine != nil && l.Machine.Exists != nil { // with it an image may give its kubelet other IDs than all
				if there, told := l.Machine.Exists("/usr/bin/getsubids"); told && there {
					defer func(before Severity) { l.rule.Severity = before }(l.rule.Severity)
					l.rule.Severity = Warning
				}
			}
			size, fewer := []string{"userNamespaces", "idsPerPod"}, "take it out, or write 65536 times a power of 2"
			path, hint := []string{"maxPods"}, fmt.Sprintf("at most %d; Kubernetes is tested with 110", 1<<32/ids-1)
			if !ok {
				path, hint = size, fewer
			}
			switch free := 1<<32 - ids; {
			case free%ids != 0:
				l.at(size, fewer, "create user namespace manager: kubelet user assigned IDs length %d is not a multiple of %d", free, ids)
			case n > free/ids:
				l.at(path, hint, "create user namespace manager: kubelet user assigned IDs are not enough to support %d pods", n)
			}
		}},
		{ID: "config-open-files", Minds: "fewer open files than the kubelet itself needs", Does: Exits, Severity: Error, Alone: true, Source: "cmd/kubelet/app/server.go, RunKubelet; pkg/util/rlimit", check: func(l *look) {
			n, ok := l.number("maxOpenFiles")
			if !ok || n < 0 || n >= fewOpenFiles || n == 0 && l.zeroIsUnset("maxOpenFiles") {
				return
			}
			if n >= leastOpenFiles {
				defer func(before Severity) { l.rule.Severity = before }(l.rule.Severity)
				l.rule.Severity = Warning
			}
			l.field("maxOpenFiles", "write 1000000, which is the default", "too many open files: the kubelet and its pods need more than %d", n)
		}},
		{ID: "config-pod-pids", Minds: "a limit of processes that the kernel cannot set", Does: Swallows, Severity: Warning, Alone: true, Source: "pkg/kubelet/cm/cgroup_manager_linux.go, Create; Linux, kernel/cgroup/pids.c", check: func(l *look) {
			if n, _ := l.number("podPidsLimit"); n > 1<<22 {
				l.field("podPidsLimit", "write at most 4194304, or -1 for no limit of its own", "the kernel knows no limit above 4194304: the kubelet runs, and pods have none")
			}
		}},
		{ID: "config-unknown-word", Minds: "a word where a field takes one of few", Does: Exits, Severity: Error, Alone: true, Source: validation, check: (*look).words},
		{ID: "config-cgroup-driver-word", Minds: "a cgroup driver that there is not", Does: Swallows, Severity: Warning, Alone: true, Source: "cmd/kubelet/app/server.go, getCgroupDriverFromCRI", check: func(l *look) {
			if driver := l.text("cgroupDriver"); driver != "" && driver != "systemd" && driver != "cgroupfs" {
				l.field("cgroupDriver", choose(driver, []string{"systemd", "cgroupfs"}),
					"cgroupDriver %q is unknown: a runtime that reports its driver wins without a word, with another the kubelet exits", driver)
			}
		}},
		{ID: "config-image-gc-order", Minds: "a low threshold for images that is not below the high one", Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			high, low := int64(85), int64(80)
			if n, ok := l.number("imageGCHighThresholdPercent"); ok {
				high = n
			}
			n, set := l.number("imageGCLowThresholdPercent")
			if set {
				low = n
			}
			if low < high {
				return
			}
			name := "imageGCHighThresholdPercent"
			if set {
				name = "imageGCLowThresholdPercent"
			}
			l.field(name, "the low one is 80 where it is not set, the high one 85",
				"invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) %d must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) %d", low, high)
		}},
		{ID: "config-parallel-pulls", Minds: "several pulls at once, and pulls one after the other", Since: 27, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			// Serial is the default as long as nothing is said about parallel ones.
			if n, ok := l.number("maxParallelImagePulls"); ok && n > 1 && l.boolean("serializeImagePulls", false) {
				l.field("maxParallelImagePulls", "set serializeImagePulls: false", "invalid configuration: maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false")
			}
		}},
		{ID: "config-event-rate", Minds: "an event rate of 0, which is no limit from 1.37 on, and was 5 in a second before", Since: 37, Does: Differs, Severity: Warning, Alone: true, Source: "cmd/kubelet/app/server.go, run; kubernetes#117119", check: func(l *look) {
			if n, ok := l.number("eventRecordQPS"); ok && n == 0 {
				l.field("eventRecordQPS", "write how many there may be, as 5, or take it out for 50", "0 is no limit from 1.37 on; up to 1.36 it was 5 events in a second")
			}
		}},
		{ID: "config-memory-throttling", Minds: "a memory throttling factor outside of 0 to 1", Since: 22, Does: Exits, Severity: Error, Alone: true, Source: validation, check: func(l *look) {
			if n, ok := l.doc["memoryThrottlingFactor"].(json.Number); ok {
				if f, err := n.Float64(); err == nil && (f <= 0 || f > 1) {
					l.field("memoryThrottlingFactor", "", "invalid configuration: memoryThrottlingFactor %s must be greater than 0 and less than or equal to 1.0", n)
				}
			}
		}},
		{ID: "config-memory-throttling-gate", Minds: "a memory throttling factor without MemoryQoS, but for 0.9, which was the default", Since: 37, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			n, ok := l.inner("memoryThrottlingFactor").(json.Number)
			if !ok || l.gate("MemoryQoS") {
				return
			}
			if f, err := n.Float64(); err == nil && f != 0.9 {
				l.field("memoryThrottlingFactor", "set featureGates: {MemoryQoS: true}, or take it out", "invalid configuration: memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled")
			}
		}},
		{ID: "config-ids-per-pod", Minds: "user namespaces of a size that is no multiple of 65536", Since: 33, Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/apis/config/validation/validation_linux.go", check: func(l *look) {
			n, ok := l.number("userNamespaces", "idsPerPod")
			path := []string{"userNamespaces", "idsPerPod"}
			switch {
			case !ok:
			case n < 65536:
				l.at(path, "", "invalid configuration: userNamespaces.idsPerPod must not be less than 65536")
			case n%65536 != 0:
				l.at(path, "", "invalid configuration: userNamespaces.idsPerPod must be a multiple of 65536")
			case n > 1<<32-1:
				l.at(path, "", "invalid configuration: userNamespaces.idsPerPod must not be more than 4294967295")
			}
		}},
	}
}

// words are of fields that take one of few: the field, its words, and what the kubelet says of another. What the type of a
// field says is in the tables of package known; the others are validated by hand in Kubernetes, so they are here.
const words = `cpuManagerPolicy none,static unknown policy: %q
memoryManagerPolicy None,Static unknown policy: %q
topologyManagerPolicy none,best-effort,restricted,single-numa-node invalid configuration: topologyManagerPolicy (--topology-manager-policy) %q must be one of
topologyManagerScope container,pod invalid configuration: topologyManagerScope (--topology-manager-scope) %q must be one of
hairpinMode hairpin-veth,promiscuous-bridge,none invalid configuration: option %q specified for hairpinMode (--hairpin-mode)
configMapAndSecretChangeDetectionStrategy Get,Cache,Watch unknown configmap and secret manager mode: %s
imagePullCredentialsVerificationPolicy NeverVerify,NeverVerifyPreloadedImages,NeverVerifyAllowlistedImages,AlwaysVerify invalid configuration: option %q specified for imagePullCredentialsVerificationPolicy
memoryReservationPolicy None,TieredReservation invalid configuration: option %q specified for memoryReservationPolicy
tlsMinVersion VersionTLS10,VersionTLS11,VersionTLS12,VersionTLS13 unknown tls version %q
authorization.mode AlwaysAllow,Webhook unknown authorization mode %s
logging.format text,json logging.format: Invalid value: %q: Unsupported log format`

// words minds them. An empty one stands for the default, but as the value of a flag.
func (l *look) words() {
	for line := range strings.Lines(words) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		path, allowed := strings.Split(f[0], "."), strings.Split(f[1], ",")
		word, ok := l.inner(path...).(string)
		if word == "" && (l.zeroIsUnset(f[0]) || f[0] == "tlsMinVersion") {
			continue
		}
		if ok && !slices.Contains(allowed, word) {
			l.at(path, choose(word, allowed), f[2], word)
		}
	}
	if word, _ := l.inner("memorySwap", "swapBehavior").(string); word != "" {
		allowed := []string{"LimitedSwap", "NoSwap"}
		if l.minor < 30 {
			allowed[1] = "UnlimitedSwap"
		}
		if !slices.Contains(allowed, word) {
			l.at([]string{"memorySwap", "swapBehavior"}, choose(word, allowed), "invalid configuration: memorySwap.swapBehavior %q must be one of: \"\", %q or %q", word, allowed[0], allowed[1])
		}
	}
}
