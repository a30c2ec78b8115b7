package rules

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/quantity"
)

const (
	allowlist      = "preloadedImagesVerificationAllowlist"
	pullPolicy     = "imagePullCredentialsVerificationPolicy"
	vmoduleField   = "logging.vmodule"
	flushFrequency = "logging.flushFrequency"
	logSize        = "containerLogMaxSize"
	alphaOptions   = "LoggingAlphaOptions"
	noAlphaOptions = "{field}: Forbidden: Feature LoggingAlphaOptions is disabled"
	setAlpha       = "set featureGates: {LoggingAlphaOptions: true}, or remove it"
)

// otherRules returns the rules about taints, addresses, cgroups, images, logs, traces and sysctls.
func otherRules() []Rule {
	return []Rule{
		exits("config-bad-taint", 23, "malformed registration taints, and duplicates of key and effect",
			validation+"; pkg/util/taints",
			at("registerWithTaints.*", isBadTaint, "", ""),
			invalid("registerWithTaints.*.timeAdded", func(v value) bool { return v.raw != nil && v.minor >= 24 },
				"remove it", "taint.TimeAdded is not nil"),
			at("registerWithTaints.*", isRepeatedTaint, "remove the duplicate",
				"duplicated taints with the same key and effect: {why}; the Node is rejected")),

		ignores("config-bad-address", 0, "a DNS server that is not an IP address",
			"pkg/kubelet/network/dns/dns.go; cmd/kubelet/app/server.go",
			at("clusterDNS.*", isNoAddress, "write the address of the cluster's DNS service",
				`"{value}" is not an IP address: the kubelet runs, and pods cannot resolve names`)),

		exits("config-cgroup-root", 0, "`systemCgroups` without `cgroupRoot`", validation,
			invalid("systemCgroups", func(v value) bool { return hasText(v) && !v.has("cgroupRoot") },
				"set cgroupRoot: / too",
				"systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified")),

		exits("config-system-cgroups", 0, "`systemCgroups` that is the root",
			"pkg/kubelet/cm/container_manager_linux.go, setupNode",
			at("systemCgroups", func(v value) bool { return v.raw == "/" }, "name another cgroup, or remove it",
				`system container cannot be root ("/")`)),

		exits("config-run-once", 32, "`runOnce`", validation,
			invalid("runOnce", isTrue, "remove it",
				"runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set")),

		exits("config-preloaded-images", 33,
			"an allowlist of images that its policy does not use, or a malformed pattern in it", validation,
			invalid(allowlist,
				func(v value) bool { return hasElements(v) && v.textOf(pullPolicy) != "NeverVerifyAllowlistedImages" },
				"set imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
				"can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not "+
					`"NeverVerifyAllowlistedImages"`),
			invalid(allowlist+".*", func(v value) bool { return v.fails(kubelet.CheckImagePattern(v.text())) },
				"write an image without tag and digest, or everything below a name: registry.example/team/*",
				"invalid image pattern in `preloadedImagesVerificationAllowlist`: {why}")),

		exits("config-log-query", 27, "log queries without the log handler", validation,
			invalid("enableSystemLogQuery",
				func(v value) bool { return isTrue(v) && !v.isOn("enableSystemLogHandler") },
				"set enableSystemLogHandler: true", "enableSystemLogHandler is required for enableSystemLogQuery")),

		lists(exits("config-log-size", 0, "a malformed size of logs", "pkg/kubelet/logs/container_log_manager.go",
			at(logSize, isBadLogSize, quantityHint, `failed to parse container log max size "{value}": {why}`))),

		exits("config-log-dir", 30, "a folder of logs that is not clean, or not ASCII", validation,
			invalid("podLogsDir", isBadLogDir, "", `pod logs path "{value}" {why}`)),

		exits("config-logging", 23, "logging options that the format does not allow",
			"k8s.io/component-base/logs/api/v1/options.go, Validate",
			at(flushFrequency, isBadFlushFrequency, "", "{field}: Invalid value: Must be greater than zero"),
			at("logging.verbosity", above(math.MaxInt32), "", "{field}: Invalid value: Must be <= 2147483647"),
			at("logging.options.text.infoBufferSize logging.options.json.infoBufferSize",
				lacksGate(alphaOptions, hasAmount), setAlpha, noAlphaOptions),
			at("logging.options.text.splitStream logging.options.json.splitStream",
				lacksGate(alphaOptions, isSplitByFlag), setAlpha, noAlphaOptions),
			at(vmoduleField+".*", isBadVModule, "", "logging.vmodule[{key}]: {why}"),
			at(vmoduleField, func(v value) bool { return hasElements(v) && v.textOf("logging.format") == "json" }, "",
				"logging.vmodule: Forbidden: Only supported for text log format")),

		exits("config-tracing", 25, "an invalid sampling rate or endpoint of traces",
			"k8s.io/component-base/tracing/api/v1/config.go",
			at("tracing.samplingRatePerMillion", isBelowZero, "",
				"{field}: Invalid value: {value}: sampling rate must be positive"),
			at("tracing.samplingRatePerMillion", above(1000000), "",
				"{field}: Invalid value: {value}: sampling rate per million must be less than or equal to one million"),
			at("tracing.endpoint", isBadTraceEndpoint, "write HOST:PORT without a scheme",
				"tracing.endpoint: Invalid value: {why}")),

		lists(exits("config-unsafe-sysctl", 0, "a sysctl that does not belong to a namespace",
			"pkg/kubelet/sysctl/allowlist.go",
			at("allowedUnsafeSysctls.*", isBadUnsafeSysctl, "", ""))),

		lists(exits("config-pod-sysctls", 37,
			"a default sysctl of pods that is malformed, not in a namespace, or a duplicate", validation,
			invalid("defaultPodSysctls.*", isBadPodSysctl, "", "{why}"))),

		exits("config-no-endpoint", 27, "an empty endpoint of the runtime", validation,
			invalid("--container-runtime-endpoint", func(v value) bool { return !hasText(v) },
				"remove it, or name the runtime's socket",
				"the containerRuntimeEndpoint was not specified or empty")),
	}
}

func (v value) taint() (taint kubelet.Taint, isObject bool) {
	object, isObject := v.raw.(map[string]any)

	return kubelet.TaintOf(object), isObject
}

func isBadTaint(v value) bool {
	taint, isObject := v.taint()
	err := taint.Check()

	return isObject && err != nil &&
		v.because(err.Error(), "invalid taint: {%s %s %s <nil>}", taint.Key, taint.Value, taint.Effect)
}

func isRepeatedTaint(v value) bool {
	taint, isObject := v.taint()
	v.why = taint.String()

	return isObject && v.isRepeated("registerWithTaints.*", func(v value) string {
		taint, _ := v.taint()

		return taint.Key + ":" + taint.Effect
	})
}

func isNoAddress(v value) bool {
	_, err := netip.ParseAddr(v.text())

	return v.raw != nil && err != nil
}

// isBadLogSize reports a size that the kubelet cannot parse. A negative one disables rotation.
func isBadLogSize(v value) bool {
	size, err := quantity.Parse(v.text())
	if _, isInteger := size.AsInt64(); err == nil && !isInteger {
		err = fmt.Errorf("invalid max log size")
	}
	isUnset := v.text() == "" && v.isZeroUnset(logSize)

	return !isUnset && v.fails(err)
}

// isBadLogDir reports an absolute path that is not clean, and a relative one that the kubelet does not resolve.
func isBadLogDir(v value) bool {
	dir := v.text()
	isOther := func(r rune) bool { return r > 127 }
	switch {
	case dir != "" && !path.IsAbs(dir) && !v.isResolved("podLogsDir"):
		return v.because("write an absolute path", "must be absolute path")
	case path.IsAbs(dir) && path.Clean(dir) != dir:
		return v.because("write "+path.Clean(dir), "must be normalized")
	case strings.ContainsFunc(dir, isOther):
		return v.because("", "mut contains ASCII characters only")
	}

	return false
}

// isBadFlushFrequency checks a duration, or a number of nanoseconds.
func isBadFlushFrequency(v value) bool {
	frequency, isDuration := v.duration()
	n, isNumber := v.number()
	if isNumber {
		frequency = time.Duration(n)
	}
	isUnset := frequency == 0 && v.isZeroUnset(flushFrequency)

	return (isDuration || isNumber) && frequency <= 0 && !isUnset
}

func isBadVModule(v value) bool {
	pattern, _ := dig(v.raw, "filePattern").(string)
	verbosity, _ := parseNumber(dig(v.raw, "verbosity"))
	switch {
	case pattern == "":
		return v.because("", "Required value: File pattern must not be empty")
	case strings.ContainsAny(pattern, "=,"):
		return v.because("write an entry for each pattern",
			"Invalid value: %q: File pattern must not contain equal sign or comma", pattern)
	case verbosity > math.MaxInt32:
		return v.because("", "Invalid value: %d: Must be <= %d", verbosity, math.MaxInt32)
	}

	return false
}

func hasAmount(v value) bool {
	amount, err := v.amount()

	return err == nil && !amount.IsZero()
}

// isSplitByFlag: of splitStream only the flag counts. The kubelet loses the file's value when it parses its flags
// again.
func isSplitByFlag(v value) bool { return isTrue(v) && !v.isZeroUnset(strings.Join(v.path, ".")) }

func isBelowZero(v value) bool {
	n, _ := v.number()

	return n < 0
}

func isBadTraceEndpoint(v value) bool {
	endpoint := v.text()
	if !strings.Contains(endpoint, "//") {
		endpoint = "dns://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err == nil && !slices.Contains([]string{"dns", "unix", "unix-abstract"}, u.Scheme) {
		err = fmt.Errorf("unsupported scheme: %s.  Options are none, dns, unix, or unix-abstract", u.Scheme)
	}

	return err != nil && v.because("", "%q: %s", endpoint, err)
}

// unsafeSysctls belong to a namespace, as prefixes or whole names. Only those can be set in a pod.
var unsafeSysctls = []string{"kernel.shm*", "kernel.msg*", "kernel.sem", "fs.mqueue.*", "net.*"}

// isSysctlPattern reports whether a text is words between dots or slashes, the last of which may end in a star.
func isSysctlPattern(text string) bool {
	const pattern = `^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`
	matches, err := regexp.MatchString(pattern, text)

	return err == nil && matches && len(text) <= 253
}

func isNamespaced(name string, valid []string) bool {
	return slices.ContainsFunc(valid, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")

		return name == pattern || isPrefix && strings.HasPrefix(name, prefix)
	})
}

func isBadUnsafeSysctl(v value) bool {
	name := strings.TrimSuffix(strings.ReplaceAll(v.text(), "/", "."), "*")
	switch {
	case !isSysctlPattern(v.text()):
		return v.because("write a name, or its beginning and *",
			`sysctl "{value}" must have at most 253 characters and match regex`)
	case !isNamespaced(name, unsafeSysctls):
		return v.because("valid: "+strings.Join(unsafeSysctls, ", "), "the sysctls %q are not known to be namespaced",
			name)
	}

	return false
}

func isBadPodSysctl(v value) bool {
	dotted := func(v value) string { return strings.ReplaceAll(v.key(), "/", ".") }
	name := dotted(v)
	valid := append(slices.Clone(unsafeSysctls), "kernel.domainname", "user.*")
	switch {
	case !v.isGateOn("DefaultPodSysctls"):
	case strings.Contains(name, "*") || !isSysctlPattern(v.key()):
		return v.because("write its whole name, like net.ipv4.ip_forward",
			`"{key}" is not a valid sysctl name for defaultPodSysctls`)
	case !isNamespaced(name, valid):
		return v.because("valid: "+strings.Join(valid, ", "),
			`"{key}" is not known to be namespaced for defaultPodSysctls`)
	case v.isRepeated("defaultPodSysctls.*", dotted):
		return v.because("remove the duplicate", "duplicate sysctl %q found in defaultPodSysctls", name)
	}

	return false
}
