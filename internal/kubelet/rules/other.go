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
	flushFrequency = "logging.flushFrequency"
	logSize        = "containerLogMaxSize"
)

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

func isBadImagePattern(v value) bool { return v.fails(kubelet.CheckImagePattern(v.text())) }

// isBadLogSize reports a size that the kubelet cannot parse. A negative one disables rotation.
func isBadLogSize(v value) bool {
	size, err := quantity.Parse(v.text())
	if _, isInteger := size.AsInt64(); err == nil && !isInteger {
		err = fmt.Errorf("invalid max log size")
	}
	isUnset := v.text() == "" && v.isZeroUnset(logSize)

	return !isUnset && v.fails(err)
}

// isBadLogDir reports an absolute path that is not clean, and a relative path that the kubelet does not resolve.
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
