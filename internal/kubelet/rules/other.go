package rules

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/quantity"
)

// otherRules returns the rules about taints, addresses, cgroups, images, logs, traces and sysctls.
func otherRules() []Rule {
	return []Rule{
		{
			ID:      "config-bad-taint",
			Summary: "malformed registration taints, and duplicates of key and effect",
			Since:   23,
			Source:  validation + "; pkg/util/taints",
			check:   checkTaints,
		},
		{
			ID:      "config-bad-address",
			Summary: "a DNS server that is not an IP address",
			Effect:  Ignores,
			Source:  "pkg/kubelet/network/dns/dns.go; cmd/kubelet/app/server.go",
			check:   checkDNS,
		},
		{
			ID:      "config-cgroup-root",
			Summary: "`systemCgroups` without `cgroupRoot`",
			Source:  validation,
			check:   checkCgroupRoot,
		},
		{
			ID:      "config-system-cgroups",
			Summary: "`systemCgroups` that is the root",
			Source:  "pkg/kubelet/cm/container_manager_linux.go, setupNode",
			check:   checkSystemCgroups,
		},
		{
			ID:      "config-run-once",
			Summary: "`runOnce`",
			Since:   32,
			Source:  validation,
			check:   checkRunOnce,
		},
		{
			ID:      "config-preloaded-images",
			Summary: "an allowlist of images that its policy does not use, or a malformed pattern in it",
			Since:   33,
			Source:  validation,
			check:   checkPreloadedImages,
		},
		{
			ID:      "config-log-query",
			Summary: "log queries without the log handler",
			Since:   27,
			Source:  validation,
			check:   checkLogQuery,
		},
		{
			ID:      "config-log-size",
			Lists:   true,
			Summary: "a malformed size of logs",
			Source:  "pkg/kubelet/logs/container_log_manager.go",
			check:   checkLogSize,
		},
		{
			ID:      "config-log-dir",
			Summary: "a folder of logs that is not clean, or not ASCII",
			Since:   30,
			Source:  validation,
			check:   checkLogDir,
		},
		{
			ID:      "config-logging",
			Summary: "logging options that the format does not allow",
			Since:   23,
			Source:  "k8s.io/component-base/logs/api/v1/options.go, Validate",
			check:   checkLogging,
		},
		{
			ID:      "config-tracing",
			Summary: "an invalid sampling rate or endpoint of traces",
			Since:   25,
			Source:  "k8s.io/component-base/tracing/api/v1/config.go",
			check:   checkTracing,
		},
		{
			ID:      "config-unsafe-sysctl",
			Lists:   true,
			Summary: "a sysctl that does not belong to a namespace",
			Source:  "pkg/kubelet/sysctl/allowlist.go",
			check:   checkUnsafeSysctls,
		},
		{
			ID:      "config-pod-sysctls",
			Lists:   true,
			Summary: "a default sysctl of pods that is malformed, not in a namespace, or a duplicate",
			Since:   37,
			Source:  validation,
			check:   checkPodSysctls,
		},
		{
			ID:      "config-no-endpoint",
			Summary: "an empty endpoint of the runtime",
			Since:   27,
			Source:  validation,
			check:   forFlag("container-runtime-endpoint", checkEndpointFlag),
		},
	}
}

func checkTaints(c *checker) {
	var seen []kubelet.Taint
	for i, v := range c.listAt("registerWithTaints") {
		object, isObject := v.(map[string]any)
		if !isObject {
			continue
		}
		taint := kubelet.TaintOf(object)
		path := []string{"registerWithTaints", strconv.Itoa(i)}
		if err := taint.Check(); err != nil {
			c.reportAt(path, err.Error(), "invalid taint: {%s %s %s <nil>}", taint.Key, taint.Value,
				taint.Effect)
		}
		if object["timeAdded"] != nil && c.minor >= 24 {
			c.reportAt(append(path, "timeAdded"), "remove it",
				"invalid configuration: taint.TimeAdded is not nil")
		}
		isDuplicate := func(other kubelet.Taint) bool {
			return other.Key == taint.Key && other.Effect == taint.Effect
		}
		if slices.ContainsFunc(seen, isDuplicate) {
			c.reportAt(path, "remove the duplicate",
				"duplicated taints with the same key and effect: %s; the Node is rejected", taint)
		}
		seen = append(seen, taint)
	}
}

func checkDNS(c *checker) {
	for i, v := range c.listAt("clusterDNS") {
		text, isText := v.(string)
		if _, err := netip.ParseAddr(text); isText && err != nil {
			c.reportElement("clusterDNS", i, "write the address of the cluster's DNS service",
				"%q is not an IP address: the kubelet runs, and pods cannot resolve names", text)
		}
	}
}

func checkCgroupRoot(c *checker) {
	if c.hasText("systemCgroups") && !c.hasText("cgroupRoot") {
		c.reportField("systemCgroups", "set cgroupRoot: / too", "invalid configuration: "+
			"systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified")
	}
}

func checkSystemCgroups(c *checker) {
	if c.textAt("systemCgroups") == "/" {
		c.reportField("systemCgroups", "name another cgroup, or remove it",
			"system container cannot be root (\"/\")")
	}
}

func checkRunOnce(c *checker) {
	if c.isTrue("runOnce") {
		c.reportField("runOnce", "remove it", "invalid configuration: "+
			"runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set")
	}
}

func checkPreloadedImages(c *checker) {
	const field = "preloadedImagesVerificationAllowlist"
	const policy = "NeverVerifyAllowlistedImages"
	if c.hasElements(field) && c.textAt("imagePullCredentialsVerificationPolicy") != policy {
		c.reportField(
			field,
			"set imagePullCredentialsVerificationPolicy: "+policy,
			"invalid configuration: "+
				"can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` "+
				"is not \"NeverVerifyAllowlistedImages\"",
		)
	}

	c.startFinding()
	for i, pattern := range c.textsAt(field) {
		if err := kubelet.CheckImagePattern(pattern); err != nil {
			c.reportElement(
				field,
				i,
				"write an image without tag and digest, or everything below a name: registry.example/team/*",
				"invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: %s",
				err,
			)
		}
	}
}

func checkLogQuery(c *checker) {
	if c.isTrue("enableSystemLogQuery") && !c.boolAt("enableSystemLogHandler", true) {
		c.reportField("enableSystemLogQuery", "set enableSystemLogHandler: true",
			"invalid configuration: enableSystemLogHandler is required for enableSystemLogQuery")
	}
}

// checkLogSize reports a size that the kubelet cannot parse. A negative one disables rotation.
func checkLogSize(c *checker) {
	const field = "containerLogMaxSize"
	text := c.textAt(field)
	if text == "" && c.isZeroUnset(field) {
		return
	}
	size, err := quantity.Parse(text)
	if _, isInteger := size.AsInt64(); err == nil && !isInteger {
		err = fmt.Errorf("invalid max log size")
	}
	if err != nil {
		c.reportField(field, quantityHint, "failed to parse container log max size %q: %s", text, err)
	}
}

// checkLogDir reports an absolute path that is not clean, and a relative one that the kubelet does not resolve.
func checkLogDir(c *checker) {
	dir := c.textAt("podLogsDir")
	isASCII := !strings.ContainsFunc(dir, func(r rune) bool {
		return r > 127
	})
	switch {
	case dir != "" && !path.IsAbs(dir) && !c.isResolved("podLogsDir"):
		c.reportField("podLogsDir", "write an absolute path",
			"invalid configuration: pod logs path %q must be absolute path", dir)
	case path.IsAbs(dir) && path.Clean(dir) != dir:
		c.reportField("podLogsDir", "write "+path.Clean(dir),
			"invalid configuration: pod logs path %q must be normalized", dir)
	case !isASCII:
		c.reportField("podLogsDir", "",
			"invalid configuration: pod logs path %q mut contains ASCII characters only", dir)
	}
}

const vmoduleField = "logging.vmodule"

func checkLogging(c *checker) {
	c.checkFlushFrequency()
	c.checkAlphaLogging()
	c.startFinding()
	if n, _ := c.numberAt("logging.verbosity"); n > math.MaxInt32 {
		c.reportField("logging.verbosity", "",
			"logging.verbosity: Invalid value: Must be <= %d", math.MaxInt32)
	}
	c.startFinding()
	modules := c.listAt(vmoduleField)
	for i, module := range modules {
		c.checkVModule(i, module)
	}
	if len(modules) > 0 && c.textAt("logging.format") == "json" {
		c.reportField(vmoduleField, "", "logging.vmodule: Forbidden: Only supported for text log format")
	}
}

// checkFlushFrequency checks a duration, or a number of nanoseconds.
func (c *checker) checkFlushFrequency() {
	const field = "logging.flushFrequency"
	frequency, ok := c.durationAt(field)
	if n, isNumber := c.numberAt(field); isNumber {
		frequency, ok = time.Duration(n), true
	}
	isUnset := frequency == 0 && c.isZeroUnset(field)
	if ok && frequency <= 0 && !isUnset {
		c.reportField(field, "", "logging.flushFrequency: Invalid value: Must be greater than zero")
	}
}

func (c *checker) checkVModule(i int, module any) {
	object, _ := module.(map[string]any)
	pattern, _ := object["filePattern"].(string)
	verbosity, _ := parseNumber(object["verbosity"])
	switch {
	case pattern == "":
		c.reportElement(vmoduleField, i, "",
			"logging.vmodule[%d]: Required value: File pattern must not be empty", i)
	case strings.ContainsAny(pattern, "=,"):
		c.reportElement(vmoduleField, i, "write an entry for each pattern",
			"logging.vmodule[%d]: Invalid value: %q: "+
				"File pattern must not contain equal sign or comma", i, pattern)
	case verbosity > math.MaxInt32:
		c.reportElement(vmoduleField, i, "", "logging.vmodule[%d]: Invalid value: %d: Must be <= %d", i,
			verbosity, math.MaxInt32)
	}
}

// checkAlphaLogging reports options that need a feature gate. Of splitStream only the flag counts: the kubelet loses
// the file's value when it parses its flags again.
func (c *checker) checkAlphaLogging() {
	const (
		gate        = "LoggingAlphaOptions"
		gateHint    = "set featureGates: {" + gate + ": true}, or remove it"
		gateMessage = "%s: Forbidden: Feature " + gate + " is disabled"
	)
	if _, hasGate := c.findGate(gate); !hasGate {
		return
	}
	for _, format := range []string{"text", "json"} {
		c.startFinding()
		field := "logging.options." + format + ".infoBufferSize"
		size, err := quantity.Parse(fmt.Sprint(c.valueAt(field)))
		hasBuffer := err == nil && !size.IsZero()
		if hasBuffer && !c.isGateOn(gate) {
			c.reportField(field, gateHint, gateMessage, field)
		}

		c.startFinding()
		field = "logging.options." + format + ".splitStream"
		isFlagOn := c.isTrue(field) && !c.isZeroUnset(field)
		if isFlagOn && !c.isGateOn(gate) {
			c.reportField(field, gateHint, gateMessage, field)
		}
	}
}

func checkTracing(c *checker) {
	const (
		rateField     = "tracing.samplingRatePerMillion"
		endpointField = "tracing.endpoint"
	)
	rate, _ := c.numberAt(rateField)
	why := ""
	if rate < 0 {
		why = "sampling rate must be positive"
	} else if rate > 1000000 {
		why = "sampling rate per million must be less than or equal to one million"
	}
	if why != "" {
		c.reportField(rateField, "", "tracing.samplingRatePerMillion: Invalid value: %d: %s", rate, why)
	}

	c.startFinding()
	endpoint := c.textAt(endpointField)
	if !strings.Contains(endpoint, "//") {
		endpoint = "dns://" + endpoint
	}
	if err := checkTraceEndpoint(endpoint); err != nil {
		c.reportField(endpointField, "write HOST:PORT without a scheme",
			"tracing.endpoint: Invalid value: %q: %s", endpoint, err)
	}
}

func checkTraceEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"dns", "unix", "unix-abstract"}, u.Scheme) {
		return fmt.Errorf("unsupported scheme: %s.  Options are none, dns, unix, or unix-abstract",
			u.Scheme)
	}

	return nil
}

// Sysctls that belong to a namespace, as prefixes or whole names. Only those can be set in a pod.
var (
	unsafeSysctls = []string{"kernel.shm*", "kernel.msg*", "kernel.sem", "fs.mqueue.*", "net.*"}
	podSysctls    = append(slices.Clone(unsafeSysctls), "kernel.domainname", "user.*")
)

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

func checkUnsafeSysctls(c *checker) {
	const field = "allowedUnsafeSysctls"
	for i, sysctl := range c.textsAt(field) {
		name := strings.TrimSuffix(strings.ReplaceAll(sysctl, "/", "."), "*")
		switch {
		case !isSysctlPattern(sysctl):
			c.reportElement(field, i, "write a name, or its beginning and *",
				"sysctl %q must have at most 253 characters and match regex", sysctl)
		case !isNamespaced(name, unsafeSysctls):
			c.reportElement(field, i, "valid: "+strings.Join(unsafeSysctls, ", "),
				"the sysctls %q are not known to be namespaced", name)
		}
	}
}

func checkPodSysctls(c *checker) {
	if !c.isGateOn("DefaultPodSysctls") {
		return
	}
	seen := map[string]bool{}
	for _, name := range sortedKeys(c.mapAt("defaultPodSysctls")) {
		path := []string{"defaultPodSysctls", name}
		dotted := strings.ReplaceAll(name, "/", ".")
		switch {
		case strings.Contains(name, "*") || !isSysctlPattern(name):
			c.reportAt(path, "write its whole name, like net.ipv4.ip_forward",
				"invalid configuration: %q is not a valid sysctl name for defaultPodSysctls", name)
		case !isNamespaced(dotted, podSysctls):
			c.reportAt(path, "valid: "+strings.Join(podSysctls, ", "),
				"invalid configuration: %q is not known to be namespaced for defaultPodSysctls", name)
		case seen[dotted]:
			c.reportAt(path, "remove the duplicate",
				"invalid configuration: duplicate sysctl %q found in defaultPodSysctls", dotted)
		}
		seen[dotted] = true
	}
}

// checkEndpointFlag reports an empty flag. In a file an empty endpoint selects the default.
func checkEndpointFlag(c *checker, value string) {
	if value == "" {
		c.reportFlag("container-runtime-endpoint", "remove it, or name the runtime's socket",
			"invalid configuration: the containerRuntimeEndpoint was not specified or empty")
	}
}
