package rules

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
)

// otherRules mind taints, addresses, logs and what stands alone.
func otherRules() []Rule {
	return []Rule{
		{ID: "config-bad-taint", Minds: "malformed registration taints, and one key with the same effect twice", Since: 23, Does: Exits, Severity: Error, Alone: true, Source: validation + "; pkg/util/taints", check: (*look).taints},
		{ID: "config-bad-address", Minds: "a DNS server that is no address", Does: Swallows, Severity: Warning, Alone: true, Source: "pkg/kubelet/network/dns/dns.go; cmd/kubelet/app/server.go", check: func(l *look) {
			for i, v := range l.list("clusterDNS") {
				if s, ok := v.(string); ok {
					if _, err := netip.ParseAddr(s); err != nil {
						l.at([]string{"clusterDNS", strconv.Itoa(i)}, "write the address of the cluster's DNS service", "%q is no IP address: the kubelet runs, and pods cannot resolve names", s)
					}
				}
			}
		}},
		{ID: "config-cgroup-root", Minds: "`systemCgroups` without `cgroupRoot`", Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			if l.text("systemCgroups") != "" && l.text("cgroupRoot") == "" {
				l.field("systemCgroups", "set cgroupRoot: / too", "invalid configuration: systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified")
			}
		}},
		{ID: "config-system-cgroups", Minds: "`systemCgroups` that is the root", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/cm/container_manager_linux.go, setupNode", check: func(l *look) {
			if l.text("systemCgroups") == "/" {
				l.field("systemCgroups", "name another cgroup, or take it out", "system container cannot be root (\"/\")")
			}
		}},
		{ID: "config-run-once", Minds: "`runOnce`", Since: 32, Does: Exits, Severity: Error, Alone: true, Source: validation, check: func(l *look) {
			if l.boolean("runOnce", false) {
				l.field("runOnce", "take it out", "invalid configuration: runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set")
			}
		}},
		{ID: "config-preloaded-images", Minds: "an allowlist of images that its policy does not use, or a pattern in it that is none", Since: 33, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			if len(l.list("preloadedImagesVerificationAllowlist")) > 0 && l.text("imagePullCredentialsVerificationPolicy") != "NeverVerifyAllowlistedImages" {
				l.field("preloadedImagesVerificationAllowlist", "set imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
					"invalid configuration: can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not \"NeverVerifyAllowlistedImages\"")
			}
			l.fresh()
			for i, v := range l.list("preloadedImagesVerificationAllowlist") {
				image, _ := v.(string)
				name, all := strings.CutSuffix(image, "/*")
				last := name[strings.LastIndexByte(name, '/')+1:]
				if strings.TrimSpace(name) == "" || strings.TrimSpace(image) != image || strings.Contains(name, "*") || !all && strings.ContainsAny(last, ":@") {
					l.at([]string{"preloadedImagesVerificationAllowlist", strconv.Itoa(i)}, "write an image without tag and digest, or everything below a name: registry.example/team/*",
						"invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: %s", image)
				}
			}
		}},
		{ID: "config-log-query", Minds: "log queries without the log handler", Since: 27, Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
			if l.boolean("enableSystemLogQuery", false) && !l.boolean("enableSystemLogHandler", true) {
				l.field("enableSystemLogQuery", "set enableSystemLogHandler: true", "invalid configuration: enableSystemLogHandler is required for enableSystemLogQuery")
			}
		}},
		{ID: "config-log-size", Minds: "a malformed size of logs", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/logs/container_log_manager.go", check: func(l *look) {
			if s := l.text("containerLogMaxSize"); s != "" || !l.zeroIsUnset("containerLogMaxSize") {
				if err := logSize(s); err != "" {
					l.field("containerLogMaxSize", quantityHint, "failed to parse container log max size %q: %s", s, err)
				}
			}
		}},
		{ID: "config-log-dir", Minds: "a folder of logs that is not clean, or not ASCII", Since: 30, Does: Exits, Severity: Error, Alone: true, Source: validation, check: func(l *look) {
			switch p := l.text("podLogsDir"); {
			case strings.HasPrefix(p, "/") && path.Clean(p) != p: // others begin at the folder of the file that has them
				l.field("podLogsDir", "write "+path.Clean(p), "invalid configuration: pod logs path %q must be normalized", p)
			case strings.ContainsFunc(p, func(r rune) bool { return r > 127 }):
				l.field("podLogsDir", "", "invalid configuration: pod logs path %q mut contains ASCII characters only", p)
			}
		}},
		{ID: "config-logging", Minds: "logging that its format does not allow", Since: 23, Does: Exits, Severity: Error, Source: "k8s.io/component-base/logs/api/v1/options.go, Validate", check: (*look).logging},
		{ID: "config-tracing", Minds: "a sampling rate or endpoint of traces that cannot be used", Since: 25, Does: Exits, Severity: Error, Alone: true, Source: "k8s.io/component-base/tracing/api/v1/config.go", check: (*look).tracing},
		{ID: "config-unsafe-sysctl", Minds: "a sysctl that belongs to no namespace", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/sysctl/allowlist.go", check: (*look).sysctls},
		{ID: "config-pod-sysctls", Minds: "a default sysctl of pods that is none, belongs to no namespace, or is there twice", Since: 37, Does: Exits, Severity: Error, Source: validation, check: (*look).podSysctls},
		{ID: "config-no-endpoint", Minds: "an empty endpoint of the runtime", Since: 27, Does: Exits, Severity: Error, Alone: true, Source: validation, check: func(l *look) {
			// Empty in the file is as if it were missing; only the flag can make it empty.
			if slices.Contains(l.Flags, Flag{"container-runtime-endpoint", ""}) {
				l.flag("container-runtime-endpoint", "take it out, or name the runtime's socket", "invalid configuration: the containerRuntimeEndpoint was not specified or empty")
			}
		}},
	}
}

func (l *look) taints() {
	var seen []kubelet.Taint
	for i, v := range l.list("registerWithTaints") {
		object, ok := v.(map[string]any)
		if !ok {
			continue
		}
		var t kubelet.Taint
		t.Key, _ = object["key"].(string)
		t.Value, _ = object["value"].(string)
		t.Effect, _ = object["effect"].(string)
		path := []string{"registerWithTaints", strconv.Itoa(i)}
		if err := t.Check(); err != nil {
			l.at(path, err.Error(), "invalid taint: {%s %s %s <nil>}", t.Key, t.Value, t.Effect)
		}
		if object["timeAdded"] != nil && l.minor >= 24 {
			l.at(append(path, "timeAdded"), "take it out", "invalid configuration: taint.TimeAdded is not nil")
		}
		if slices.ContainsFunc(seen, func(o kubelet.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }) {
			l.at(path, "keep one of them", "duplicated taints with the same key and effect: %s; the Node is refused", t)
		}
		seen = append(seen, t)
	}
}

func (l *look) logging() {
	d, ok := l.duration("logging", "flushFrequency")
	if n, isNumber := l.number("logging", "flushFrequency"); isNumber {
		d, ok = time.Duration(n), true
	}
	if ok && (d < 0 || d == 0 && !l.zeroIsUnset("logging.flushFrequency")) {
		l.at([]string{"logging", "flushFrequency"}, "", "logging.flushFrequency: Invalid value: Must be greater than zero")
	}
	l.alphaLogging()
	l.fresh()
	if n, ok := l.number("logging", "verbosity"); ok && n > math.MaxInt32 {
		l.at([]string{"logging", "verbosity"}, "", "logging.verbosity: Invalid value: Must be <= %d", math.MaxInt32)
	}
	l.fresh()
	modules, _ := l.inner("logging", "vmodule").([]any)
	for i, v := range modules {
		m, _ := v.(map[string]any)
		pattern, _ := m["filePattern"].(string)
		n, _ := l.numberOf(m["verbosity"])
		path := []string{"logging", "vmodule", strconv.Itoa(i)}
		switch {
		case pattern == "":
			l.at(path, "", "logging.vmodule[%d]: Required value: File pattern must not be empty", i)
		case strings.ContainsAny(pattern, "=,"):
			l.at(path, "one entry for each pattern", "logging.vmodule[%d]: Invalid value: %q: File pattern must not contain equal sign or comma", i, pattern)
		case n > math.MaxInt32:
			l.at(path, "", "logging.vmodule[%d]: Invalid value: %d: Must be <= %d", i, n, math.MaxInt32)
		}
	}
	if format, _ := l.inner("logging", "format").(string); len(modules) > 0 && format == "json" {
		l.at([]string{"logging", "vmodule"}, "", "logging.vmodule: Forbidden: Only supported for text log format")
	}
}

// alphaLogging minds options of logs without their gate. Of splitStream only the flag counts: the kubelet forgets what the
// file says when it parses its flags a second time.
func (l *look) alphaLogging() {
	const gate = "LoggingAlphaOptions"
	if _, there := l.gateOf(gate); !there || l.gate(gate) {
		return
	}
	for _, format := range []string{"text", "json"} {
		l.fresh()
		l.gate(gate)
		size := []string{"logging", "options", format, "infoBufferSize"}
		if q, err := resource.ParseQuantity(fmt.Sprint(l.inner(size...))); err == nil && q.Value() != 0 {
			l.at(size, "set featureGates: {"+gate+": true}, or take it out", "%s: Forbidden: Feature %s is disabled", strings.Join(size, "."), gate)
		}
		l.fresh()
		l.gate(gate)
		split := []string{"logging", "options", format, "splitStream"}
		if on, _ := l.inner(split...).(bool); on && !l.zeroIsUnset(strings.Join(split, ".")) {
			l.at(split, "set featureGates: {"+gate+": true}, or take it out", "%s: Forbidden: Feature %s is disabled", strings.Join(split, "."), gate)
		}
	}
}

func (l *look) tracing() {
	if n, ok := l.number("tracing", "samplingRatePerMillion"); ok && (n < 0 || n > 1000000) {
		says := "sampling rate must be positive"
		if n > 0 {
			says = "sampling rate per million must be less than or equal to one million"
		}
		l.at([]string{"tracing", "samplingRatePerMillion"}, "", "tracing.samplingRatePerMillion: Invalid value: %d: %s", n, says)
	}
	endpoint, _ := l.inner("tracing", "endpoint").(string)
	plain := endpoint
	if !strings.Contains(plain, "//") {
		plain = "dns://" + plain
	}
	if _, err := url.Parse(plain); err != nil {
		l.at([]string{"tracing", "endpoint"}, "write HOST:PORT without a scheme", "tracing.endpoint: Invalid value: %q: %s", plain, err)
	} else if scheme, _, ok := strings.Cut(endpoint, ":"); ok && strings.Contains(endpoint, "//") && !slices.Contains([]string{"dns", "unix", "unix-abstract"}, scheme) {
		l.at([]string{"tracing", "endpoint"}, "write HOST:PORT without a scheme", "tracing.endpoint: Invalid value: %q: unsupported scheme: %s.  Options are none, dns, unix, or unix-abstract", endpoint, scheme)
	}
}

// sysctls are the kernel's that belong to a namespace; the others cannot be given to a pod.
func (l *look) sysctls() {
	for i, v := range l.list("allowedUnsafeSysctls") {
		s, ok := textOrNull(v)
		if !ok {
			continue
		}
		if !sysctlPattern(s) {
			l.at([]string{"allowedUnsafeSysctls", strconv.Itoa(i)}, "one * at the end stands for what begins so", "sysctl %q must have at most 253 characters and match regex", s)
			continue
		}
		name, _, _ := strings.Cut(strings.ReplaceAll(s, "/", "."), "*")
		namespaced := slices.ContainsFunc([]string{"kernel.shm", "kernel.msg", "fs.mqueue.", "net."}, func(p string) bool { return strings.HasPrefix(name, p) })
		if !namespaced && name != "kernel.sem" {
			l.at([]string{"allowedUnsafeSysctls", strconv.Itoa(i)}, "kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.* are", "the sysctls %q are not known to be namespaced", name)
		}
	}
}

// podSysctls minds those that all pods get.
func (l *look) podSysctls() {
	if !l.gate("DefaultPodSysctls") {
		return
	}
	set := l.stringMap("defaultPodSysctls")
	seen := map[string]bool{}
	for _, name := range sorted(set) {
		path, plain := []string{"defaultPodSysctls", name}, strings.ReplaceAll(name, "/", ".")
		namespaced := slices.ContainsFunc([]string{"kernel.shm", "kernel.msg", "fs.mqueue.", "net.", "user."}, func(p string) bool { return strings.HasPrefix(plain, p) })
		switch {
		case strings.Contains(name, "*") || !sysctlPattern(name):
			l.at(path, "write its whole name, as net.ipv4.ip_forward", "invalid configuration: %q is not a valid sysctl name for defaultPodSysctls", name)
		case !namespaced && plain != "kernel.sem" && plain != "kernel.domainname":
			l.at(path, "kernel.shm*, kernel.msg*, kernel.sem, kernel.domainname, fs.mqueue.*, net.* and user.* are", "invalid configuration: %q is not known to be namespaced for defaultPodSysctls", name)
		case seen[plain]:
			l.at(path, "keep one of them", "invalid configuration: duplicate sysctl %q found in defaultPodSysctls", plain)
		}
		seen[plain] = true
	}
}

// sysctlPattern says whether a pattern is one: words between dots or slashes, the last of which may end in a star.
func sysctlPattern(s string) bool {
	const word = "abcdefghijklmnopqrstuvwxyz0123456789"
	words := strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '/' })
	if len(s) == 0 || len(s) > 253 || strings.Count(s, ".")+strings.Count(s, "/") != len(words)-1 {
		return false
	}
	for i, w := range words {
		if i == len(words)-1 && strings.HasSuffix(w, "*") {
			w = strings.TrimRight(w[:len(w)-1], "-_")
			if w == "" && len(words[i]) == 1 {
				continue
			}
		}
		if strings.Trim(w, word+"-_") != "" || w == "" || !strings.ContainsRune(word, rune(w[0])) || !strings.ContainsRune(word, rune(w[len(w)-1])) {
			return false
		}
	}
	return true
}
