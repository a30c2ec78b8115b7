package rules

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
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
		{
			ID:      "flag-unknown",
			Lists:   true,
			Summary: "a flag that this kubelet does not have: removed, newer, or misspelt",
			Source:  optionsSource,
			check:   forEachFlag(checkUnknownFlag),
		},
		{
			ID:      "flag-deprecated",
			Summary: "a flag that a later kubelet will not accept",
			Effect:  Deprecated,
			Source:  optionsSource,
			check:   forEachFlag(checkDeprecatedFlag),
		},
		{
			ID:      "flag-bad-value",
			Summary: "a value that a flag does not accept",
			Source:  "github.com/spf13/pflag",
			check:   reportBadFlags,
		},
		{
			ID:      "flag-ends",
			Summary: "`--help` or `--version`: the kubelet prints it and ends",
			Source:  "cmd/kubelet/app/server.go, NewKubeletCommand; k8s.io/component-base/version/verflag",
			check:   forEachFlag(checkEnds),
		},
		{
			ID:      "flag-overrides-config",
			Summary: "a flag and a field of the configuration with different values: the flag wins",
			Effect:  Ignores,
			Source:  "cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence",
			check:   forEachFlag(checkOverride),
		},
		{
			ID:      "flag-root-dir",
			Summary: "a `--root-dir` that is not absolute",
			Source:  "pkg/kubelet/kubelet.go, setupDataDirs",
			check:   forFlag("root-dir", checkRootDir),
		},
		{
			ID:      "flag-container-age",
			Summary: "a negative `--minimum-container-ttl-duration`",
			Source:  "pkg/kubelet/container/container_gc.go, NewContainerGC",
			check:   forFlag("minimum-container-ttl-duration", checkContainerAge),
		},
		{
			ID: "flag-config-dir",
			Summary: "`--config-dir` in 1.28 and 1.29 without the environment variable that it needs; " +
				"a warning if it is not known whether that is set",
			Since:  28,
			Until:  30,
			Source: "cmd/kubelet/app/server.go",
			check:  forFlag("config-dir", checkDropInVariable),
		},
		{
			ID:      "flag-node-labels",
			Summary: "malformed labels, and labels that a kubelet may not set on its own node",
			Source:  optionsSource + ", ValidateKubeletFlags",
			check:   forFlag("node-labels", checkNodeLabels),
		},
		{
			ID:      "flag-taints",
			Summary: "malformed taints, and duplicates of key and effect",
			Source:  "pkg/util/taints",
			check:   forFlag("register-with-taints", checkTaintFlag),
		},
		{
			ID:      "flag-node-ip",
			Summary: "a `--node-ip` that is not an address",
			Effect:  Ignores,
			Source:  nodeIPSource,
			check:   forFlag("node-ip", checkNodeIP),
		},
		{
			ID:      "flag-node-ips",
			Summary: "a `--node-ip` of several addresses that are not a dual-stack pair",
			Source:  nodeIPSource,
			check:   forFlag("node-ip", checkNodeIPs),
		},
		{
			ID:      "flag-cloud-provider",
			Lists:   true,
			Summary: "a built-in cloud provider: disabled from 1.29 unless a gate enables it, removed in 1.31",
			Since:   29,
			Source:  "pkg/kubelet/kubelet.go, NewMainKubelet; k8s.io/cloud-provider/plugins.go",
			check:   forFlag("cloud-provider", checkCloudProvider),
		},
		{
			ID: "flag-together",
			Summary: "`--exit-on-lock-contention`, or one of the two flags of image credential providers, " +
				"without the flag that it needs",
			Since:  24,
			Source: "cmd/kubelet/app/server.go, run; pkg/credentialprovider/plugin",
			check:  checkFlagPairs,
		},
		{
			ID:       "flag-hostname",
			Summary:  "a `--hostname-override` that is not a valid Node name",
			Effect:   Ignores,
			Severity: Error,
			Source:   "k8s.io/component-helpers/node/util/hostname.go; the API server's validation of Node names",
			check:    forFlag("hostname-override", checkHostname),
		},
	}
}

// forEachFlag returns a check of each flag. The last one of a name counts.
func forEachFlag(check func(*checker, Flag)) func(*checker) {
	return func(c *checker) {
		for i, f := range c.Flags {
			isSameFlag := func(other Flag) bool { return other.Name == f.Name }
			if !slices.ContainsFunc(c.Flags[i+1:], isSameFlag) {
				check(c, f)
			}
		}
	}
}

// forFlag returns a check of one flag's value.
func forFlag(name string, check func(c *checker, value string)) func(*checker) {
	return func(c *checker) {
		if value, ok := c.flagValue(name); ok {
			check(c, value)
		}
	}
}

// checkUnknownFlag reports a flag that the kubelet does not have: by its --help if that is known, otherwise by the
// tables.
func checkUnknownFlag(c *checker, f Flag) {
	if f.Name == "h" || c.hasFlag(f.Name) {
		return
	}

	oldest, newest := known.Range()
	history, isKnown := known.FlagHistory(f.Name)
	removed, isRemoved := history.Gone()
	why := ""
	hint := c.suggestFlag(f.Name)
	switch {
	case !isKnown:
		why = fmt.Sprintf(" (no kubelet from 1.%d to 1.%d has it)", oldest, newest)
	case isRemoved && c.minor >= removed:
		why = fmt.Sprintf(" (removed in 1.%d, %s)", removed, c.describeKubelet())
		hint = "remove it" + c.describeReplacement(f.Name, removed-1)
	case history.Since() > c.minor:
		why = fmt.Sprintf(" (added in 1.%d, %s)", history.Since(), c.describeKubelet())
		hint = "remove it, or use a newer kubelet"
	}
	c.variesByVersion = isKnown || c.Version != "" // a version older than the tables may have it
	c.isEvidence = c.Accepts != nil
	c.reportFlag(f.Name, hint, "failed to parse kubelet flag: unknown flag: --%s%s", f.Name, why)
}

// hasFlag reports whether the kubelet has a flag. Its --help does not list hidden ones.
func (c *checker) hasFlag(name string) bool {
	flag, isKnown := known.FlagAt(name, c.minor)
	if c.Accepts == nil {
		return isKnown
	}
	_, isListed := c.Accepts.Flags[name]

	return isListed || flag.Hidden
}

func (c *checker) suggestFlag(name string) string {
	if nearest := kubelet.Nearest(name, known.Flags(c.minor)); nearest != "" {
		return "did you mean --" + nearest + "?"
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

func checkDeprecatedFlag(c *checker, f Flag) {
	flag, _ := known.FlagAt(f.Name, c.minor)
	isDeprecated := flag.Deprecated
	if c.Accepts != nil {
		isDeprecated = c.Accepts.Flags[f.Name]
	}
	if !isDeprecated {
		return
	}

	message := "--" + f.Name + " is deprecated"
	if since, ok := known.FlagDeprecated(f.Name); ok && since > 0 && since <= c.minor {
		message += fmt.Sprintf(" since 1.%d", since)
	}
	history, _ := known.FlagHistory(f.Name)
	if removed, isRemoved := history.Gone(); isRemoved && removed > c.minor {
		message += fmt.Sprintf(", and removed in 1.%d", removed)
	} else if flag.Message != "" {
		message += ": " + strings.TrimSuffix(flag.Message, ".")
	}
	hint := "remove it"
	if flag.Field != "" {
		hint = "write " + flag.Field + " in the configuration"
	}
	c.reportFlag(f.Name, hint, "%s", message)
}

func reportBadFlags(c *checker) {
	for _, bad := range c.badFlags {
		hint := ""
		if last, _ := c.flagValue(bad.Name); last != bad.Value {
			hint = fmt.Sprintf("remove this use, which is before --%s=%s: the kubelet parses each use", bad.Name, last)
		}
		c.reportFlag(bad.Name, hint, "invalid argument %q for \"--%s\" flag: %s", bad.Value, bad.Name,
			bad.err)
	}
}

func checkOverride(c *checker, f Flag) {
	flag, _ := known.FlagAt(f.Name, c.minor)
	if flag.Field == "" || f.Name == "feature-gates" || c.Config == nil {
		return
	}

	own, _ := c.Config.Get(kubelet.Pointer(strings.Split(flag.Field, ".")...))
	if own != nil && !reflect.DeepEqual(own, c.valueAt(flag.Field)) {
		c.reportFlag(f.Name, "remove the flag, or "+flag.Field,
			"the configuration has another value for %s; the kubelet uses the flag's", flag.Field)
	}
}

// checkEnds reports a flag with which the kubelet does nothing else.
func checkEnds(c *checker, f Flag) {
	isOn, _ := strconv.ParseBool(f.Value)
	switch {
	case f.Name == "version" && (isOn || f.Value == "raw"):
		c.reportFlag(f.Name, "remove it", "the kubelet prints its version and ends")
	case (f.Name == "help" || f.Name == "h") && isOn:
		c.reportFlag(f.Name, "remove it", "the kubelet prints its help and ends")
	}
}

func checkRootDir(c *checker, value string) {
	if !strings.HasPrefix(value, "/") {
		c.reportFlag("root-dir", "write an absolute path",
			"error configuring root directory: cannot find mount point for %q", value)
	}
}

func checkContainerAge(c *checker, value string) {
	if age, err := time.ParseDuration(value); err == nil && age < 0 {
		c.reportFlag("minimum-container-ttl-duration", "",
			"failed to create kubelet: invalid minimum garbage collection age: %s", age)
	}
}

func checkDropInVariable(c *checker, value string) {
	isSet := c.DropInVariable != nil && *c.DropInVariable
	if value == "" || isSet {
		return
	}
	if c.DropInVariable == nil {
		c.severity = Warning
	}
	c.reportFlag("config-dir",
		"set Environment="+DropInVariable+"=1 in a drop-in of the kubelet's unit, or write the whole file: "+
			"layout = \"file\"",
		"flag %s specified but environment variable %s not set, cannot start kubelet (required in 1.28 and 1.29)",
		value, DropInVariable)
}

func checkNodeLabels(c *checker, value string) {
	labels, err := kubelet.ParseLabels(value)
	if err != nil {
		c.reportFlag("node-labels", "", "invalid node labels: %s", err)
	}
	for _, label := range labels {
		if err := kubelet.CheckNodeKey(label.Key, c.Version); err != nil {
			c.reportFlag("node-labels", "", "%s", err)
		}
	}
}

func checkTaintFlag(c *checker, value string) {
	if _, err := kubelet.ParseTaints(value); err != nil {
		c.reportFlag("register-with-taints", "",
			"invalid argument %q for \"--register-with-taints\" flag: %s", value, err)
	}
}

func checkNodeIP(c *checker, value string) {
	_, invalid := parseNodeIPs(value)
	for _, text := range invalid {
		c.reportFlag("node-ip", "",
			"%q is not an IP address: the kubelet ignores it, and the Node gets another", text)
	}
}

func checkNodeIPs(c *checker, value string) {
	ips, _ := parseNodeIPs(value)
	if err := checkIPPair(ips); err != nil {
		c.reportFlag("node-ip", "name one address, or one IPv4 and one IPv6 address",
			"bad --node-ip %q: %s", value, err)
	}
}

// parseNodeIPs parses --node-ip. The kubelet ignores invalid elements.
func parseNodeIPs(value string) (ips []netip.Addr, invalid []string) {
	for _, text := range strings.Split(value, ",") {
		if ip, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			ips = append(ips, ip)
		} else if text != "" {
			invalid = append(invalid, text)
		}
	}

	return ips, invalid
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

func checkCloudProvider(c *checker, value string) {
	if value == "" || value == "external" || !c.isProviderDisabled(value) {
		return
	}
	c.reportFlag("cloud-provider",
		"write external, and run the provider's controller in the cluster; or remove it",
		"cloud provider %q was specified, but built-in cloud providers are disabled (%s; "+
			"removed in 1.31)", value, c.describeKubelet())
}

func (c *checker) isProviderDisabled(name string) bool {
	if c.minor >= 33 {
		return true
	}
	if c.minor < 31 && c.Part { // the gate may be set elsewhere
		return false
	}
	builtIn := []string{"aws", "azure", "gce", "openstack", "vsphere"}

	return slices.Contains(builtIn, name) && c.isGateOn("DisableCloudProviders")
}

// checkFlagPairs reports a flag whose required other flag is missing.
func checkFlagPairs(c *checker) {
	pairs := []struct{ flag, needed, message string }{
		{
			"exit-on-lock-contention",
			"lock-file",
			"cannot exit on lock file contention: no lock file specified",
		},
		{
			"image-credential-provider-config",
			"image-credential-provider-bin-dir",
			"plugin binary directory  did not exist",
		},
		{
			"image-credential-provider-bin-dir",
			"image-credential-provider-config",
			"credential provider config path is empty",
		},
	}
	c.usesUnsetField = c.Part // the base may have the other flag
	for _, p := range pairs {
		value, _ := c.flagValue(p.flag)
		other, _ := c.flagValue(p.needed)
		if value != "" && value != "false" && other == "" {
			c.reportFlag(p.flag, "set --"+p.needed+" too, or remove it", "%s", p.message)
		}
	}
}

func checkHostname(c *checker, value string) {
	if value == "" {
		return
	}
	name := strings.ToLower(strings.TrimSpace(value))
	if why := content.IsDNS1123Subdomain(name); len(why) > 0 {
		c.reportFlag("hostname-override", "",
			"invalid Node name %q, so the kubelet runs and never has a Node: %s", value,
			strings.Join(why, "; "))
	}
}
