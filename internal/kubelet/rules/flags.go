package rules

import (
	"fmt"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/nearest"
)

// DropInVariable is the environment variable without which a kubelet of 1.28 or 1.29 does not start with --config-dir.
const DropInVariable = "KUBELET_CONFIG_DROPIN_DIR_ALPHA"

const (
	optionsSource = "cmd/kubelet/app/options"
	nodeIPSource  = "k8s.io/component-helpers/node/util/ips.go, ParseNodeIPArgument"
)

// flagRules returns the rules about the command line.
func flagRules() []Rule {
	return []Rule{
		lists(exits("flag-unknown", 0, "a flag that this kubelet does not have: removed, newer, or misspelt",
			optionsSource,
			at("--*", isUnknownFlag, "", "failed to parse kubelet flag: unknown flag: {field}{why}"))),

		row(Deprecated, Warning, "flag-deprecated", 0,
			"a flag that a later kubelet will not accept",
			optionsSource,
			at("--*", isDeprecatedFlag, "remove it", "{field} is deprecated{why}")),

		exits("flag-bad-value", 0, "a value that a flag does not accept", "github.com/spf13/pflag",
			by(reportBadFlags)),

		exits("flag-ends", 0, "`--help` or `--version`: the kubelet prints it and ends",
			"cmd/kubelet/app/server.go, NewKubeletCommand; k8s.io/component-base/version/verflag",
			at("--version", printsVersion, "remove it", "the kubelet prints its version and ends"),
			at("--help --h", isOnFlag, "remove it", "the kubelet prints its help and ends")),

		ignores("flag-overrides-config", 0,
			"a flag and a field of the configuration with different values: the flag wins",
			"cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence",
			at("--*", overridesField, "remove the flag, or {why}",
				"the configuration has another value for {why}; the kubelet uses the flag's")),

		exits("flag-root-dir", 0, "a `--root-dir` that is not absolute", "pkg/kubelet/kubelet.go, setupDataDirs",
			at("--root-dir", func(v value) bool { return !path.IsAbs(v.text()) }, "write an absolute path",
				`error configuring root directory: cannot find mount point for "{value}"`)),

		exits("flag-container-age", 0, "a negative `--minimum-container-ttl-duration`",
			"pkg/kubelet/container/container_gc.go, NewContainerGC",
			at("--minimum-container-ttl-duration", isNegative, "",
				"failed to create kubelet: invalid minimum garbage collection age: {duration}")),

		until(30, exits("flag-config-dir", 28,
			"`--config-dir` in 1.28 and 1.29 without the environment variable that it needs; "+
				"a warning if it is not known whether that is set",
			"cmd/kubelet/app/server.go",
			at("--config-dir", lacksDropInVariable,
				"set Environment="+DropInVariable+"=1 in a drop-in of the kubelet's unit, or write the whole file: "+
					`layout = "file"`,
				"flag {value} specified but environment variable "+DropInVariable+" not set, cannot start kubelet "+
					"(required in 1.28 and 1.29)"))),

		exits("flag-node-labels", 0, "malformed labels, and labels that a kubelet may not set on its own node",
			optionsSource+", ValidateKubeletFlags",
			by(reportNodeLabels)),

		exits("flag-taints", 0, "malformed taints, and duplicates of key and effect", "pkg/util/taints",
			at("--register-with-taints", rejectedBy(kubelet.ParseTaints), "",
				`invalid argument "{value}" for "--register-with-taints" flag: {why}`)),

		ignores("flag-node-ip", 0, "a `--node-ip` that is not an address", nodeIPSource,
			at("--node-ip", hasBadNodeIP, "",
				`"{why}" is not an IP address: the kubelet ignores it, and the Node gets another`)),

		exits("flag-node-ips", 0, "a `--node-ip` of several addresses that are not a dual-stack pair", nodeIPSource,
			at("--node-ip", isNoPair, "name one address, or one IPv4 and one IPv6 address",
				`bad --node-ip "{value}": {why}`)),

		lists(exits("flag-cloud-provider", 29,
			"a built-in cloud provider: disabled from 1.29 unless a gate enables it, removed in 1.31",
			"pkg/kubelet/kubelet.go, NewMainKubelet; k8s.io/cloud-provider/plugins.go",
			at("--cloud-provider", isDisabledProvider,
				"write external, and run the provider's controller in the cluster; or remove it",
				`cloud provider "{value}" was specified, but built-in cloud providers are disabled ({kubelet}; `+
					"removed in 1.31)"))),

		exits("flag-together", 24,
			"`--exit-on-lock-contention`, or one of the two flags of image credential providers, "+
				"without the flag that it needs",
			"cmd/kubelet/app/server.go, run; pkg/credentialprovider/plugin",
			needsFlag("lock-file", "--exit-on-lock-contention",
				"cannot exit on lock file contention: no lock file specified"),
			needsFlag("image-credential-provider-bin-dir", "--image-credential-provider-config",
				"plugin binary directory  did not exist"),
			needsFlag("image-credential-provider-config", "--image-credential-provider-bin-dir",
				"credential provider config path is empty")),

		row(Ignores, Error, "flag-hostname", 0,
			"a `--hostname-override` that is not a valid Node name",
			"k8s.io/component-helpers/node/util/hostname.go; the API server's validation of Node names",
			at("--hostname-override", isBadHostname, "",
				`invalid Node name "{value}", so the kubelet runs and never has a Node: {why}`)),
	}
}

// needsFlag is a check of a flag that needs another one.
func needsFlag(needed, flag, message string) check {
	lacksFlag := func(v value) bool {
		v.usesUnsetField = v.Part // the base may have the other flag

		return v.text() != "" && v.text() != "false" && v.given[needed] == ""
	}

	return at(flag, lacksFlag, "set --"+needed+" too, or remove it", message)
}

// isUnknownFlag reports whether the kubelet does not have a flag: by its --help if that is known, otherwise by the
// tables. Its --help does not list hidden ones.
func isUnknownFlag(v value) bool {
	name := v.path[0][2:]
	flag, isKnown := known.FlagAt(name, v.minor)
	if v.Accepts != nil {
		_, isListed := v.Accepts.Flags[name]
		isKnown = isListed || flag.Hidden
	}
	if isKnown || name == "h" {
		return false
	}

	oldest, newest := known.Range()
	history, hasHistory := known.FlagHistory(name)
	removed, isRemoved := history.Gone()
	v.variesByVersion = hasHistory || v.Version != "" // a version older than the tables may have it
	v.isEvidence = v.Accepts != nil
	switch {
	case !hasHistory:
		return v.because(v.suggestFlag(name), " (no kubelet from 1.%d to 1.%d has it)", oldest, newest)
	case isRemoved && v.minor >= removed:
		return v.because("remove it"+v.describeReplacement(name, removed-1), " (removed in 1.%d, %s)", removed,
			v.describeKubelet())
	case history.Since() > v.minor:
		return v.because("remove it, or use a newer kubelet", " (added in 1.%d, %s)", history.Since(),
			v.describeKubelet())
	}

	return v.because(v.suggestFlag(name), "")
}

func (c *checker) suggestFlag(name string) string {
	if near := nearest.Word(name, known.Flags(c.minor)); near != "" {
		return "did you mean --" + near + "?"
	}
	if _, isField := known.FieldAt(name, c.minor); isField {
		return name + " is a field of the configuration: write it in patch"
	}

	return "remove it, or check it against kubelet --help"
}

// describeReplacement returns what replaces a flag that the kubelet of a minor version had.
func (c *checker) describeReplacement(name string, minor int) string {
	flag, _ := known.FlagAt(name, minor)
	if _, hasField := known.FieldAt(flag.Field, c.minor); hasField {
		return ", and write " + flag.Field + " in the configuration"
	}
	if flag.Message != "" {
		return ". Kubernetes said: " + strings.TrimSuffix(flag.Message, ".")
	}

	return ""
}

func isDeprecatedFlag(v value) bool {
	name := v.path[0][2:]
	flag, _ := known.FlagAt(name, v.minor)
	if flag.Field != "" {
		v.hint = "write " + flag.Field + " in the configuration"
	}
	if since, ok := known.FlagDeprecated(name); ok && since > 0 && since <= v.minor {
		v.why = fmt.Sprintf(" since 1.%d", since)
	}
	history, _ := known.FlagHistory(name)
	if removed, isRemoved := history.Gone(); isRemoved && removed > v.minor {
		v.why += fmt.Sprintf(", and removed in 1.%d", removed)
	} else if flag.Message != "" {
		v.why += ": " + strings.TrimSuffix(flag.Message, ".")
	}
	if v.Accepts != nil {
		return v.Accepts.Flags[name]
	}

	return flag.Deprecated
}

func reportBadFlags(c *checker) {
	for _, bad := range c.badFlags {
		hint := ""
		if last := c.given[bad.Name]; last != bad.Value {
			hint = fmt.Sprintf("remove this use, which is before --%s=%s: the kubelet parses each use", bad.Name, last)
		}
		c.report("--"+bad.Name, hint, "invalid argument %q for \"--%s\" flag: %s", bad.Value, bad.Name, bad.err)
	}
}

func overridesField(v value) bool {
	name := v.path[0][2:]
	flag, _ := known.FlagAt(name, v.minor)
	if flag.Field == "" || name == "feature-gates" || v.Config == nil {
		return false
	}
	v.why = flag.Field
	own, _ := v.Config.Get(kubelet.Pointer(strings.Split(flag.Field, ".")...))

	return own != nil && !reflect.DeepEqual(own, v.valueAt(flag.Field))
}

func isOnFlag(v value) bool {
	isOn, _ := strconv.ParseBool(v.text())

	return isOn
}

func printsVersion(v value) bool { return isOnFlag(v) || v.text() == "raw" }

func lacksDropInVariable(v value) bool {
	if v.DropInVariable == nil {
		v.severity = Warning
	}

	return v.text() != "" && !orZero(v.DropInVariable)
}

func reportNodeLabels(c *checker) {
	labels, err := kubelet.ParseLabels(c.given["node-labels"])
	if err != nil {
		c.report("--node-labels", "", "invalid node labels: %s", err)
	}
	for _, label := range labels {
		if err := kubelet.CheckNodeKey(label.Key, c.Version); err != nil {
			c.report("--node-labels", "", "%s", err)
		}
	}
}

func hasBadNodeIP(v value) bool {
	_, wrong := parseNodeIPs(v.text())

	return len(wrong) > 0 && v.because("", "%s", strings.Join(wrong, `", "`))
}

func isNoPair(v value) bool {
	ips, _ := parseNodeIPs(v.text())

	return v.fails(checkIPPair(ips))
}

// parseNodeIPs parses --node-ip. The kubelet ignores wrong elements.
func parseNodeIPs(list string) (ips []netip.Addr, wrong []string) {
	for _, text := range strings.Split(list, ",") {
		if ip, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			ips = append(ips, ip)
		} else if text != "" {
			wrong = append(wrong, text)
		}
	}

	return ips, wrong
}

func checkIPPair(ips []netip.Addr) error {
	if len(ips) <= 1 {
		return nil
	}
	if len(ips) > 2 || ips[0].Is4() == ips[1].Is4() {
		return fmt.Errorf("must contain either a single IP or a dual-stack pair of IPs")
	}
	if slices.ContainsFunc(ips, netip.Addr.IsUnspecified) {
		return fmt.Errorf("dual-stack node IP cannot include '0.0.0.0' or '::'")
	}

	return nil
}

func isDisabledProvider(v value) bool {
	name := v.text()
	switch {
	case name == "" || name == "external":
		return false
	case v.minor >= 33:
		return true
	case v.minor < 31 && v.Part: // the gate may be set elsewhere
		return false
	}
	builtIn := []string{"aws", "azure", "gce", "openstack", "vsphere"}

	return slices.Contains(builtIn, name) && v.isGateOn("DisableCloudProviders")
}

func isBadHostname(v value) bool {
	name := strings.ToLower(strings.TrimSpace(v.text()))
	v.why = strings.Join(content.IsDNS1123Subdomain(name), "; ")

	return v.text() != "" && v.why != ""
}
