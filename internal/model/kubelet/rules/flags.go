package rules

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

// DropInVariable is the environment variable without which a kubelet of 1.28 or 1.29 does not start with --config-dir.
const DropInVariable = "KUBELET_CONFIG_DROPIN_DIR_ALPHA"

// lacksFlag reports a flag that needs another one.
func (v value) lacksFlag(needed string) bool {
	v.usesUnsetField = v.Part // the base may have the other flag

	return v.text() != "" && v.text() != "false" && v.given[needed] == "" && (v.MaySet == nil || !v.MaySet(needed)) &&
		v.because("set --"+needed+" too, or remove it", "it needs --%s", needed)
}

// maySet reports whether a flag may be set, as far as is known.
func (c *checker) maySet(flag string) bool {
	_, isSet := c.given[flag]

	return isSet || c.MaySet != nil && c.MaySet(flag)
}

// isUnknownFlag reports whether the kubelet does not have a flag: by its --help if that is known, otherwise by the
// tables. Its --help does not list hidden ones.
func isUnknownFlag(v value) bool {
	name := v.path[0][2:]
	flag, isKnown := known.FlagAt(name, v.minor)
	if v.Accepts != nil {
		isKnown = flag.Hidden || slices.Contains(v.Accepts.Flags, name) || slices.Contains(v.Accepts.Deprecated, name)
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
		return v.because("remove it"+v.describeReplacement(name, removed-1), " (removed in %s, %s)",
			known.Describe(removed), v.describeKubelet())
	case history.Since() > v.minor:
		return v.because("remove it, or use a newer kubelet", " (added in %s, %s)",
			known.Describe(history.Since()), v.describeKubelet())
	}

	return v.because(v.suggestFlag(name), "")
}

func (c *checker) suggestFlag(name string) string {
	if near := texts.Nearest(name, known.Flags(c.minor)); near != "" {
		return "did you mean --" + near + "?"
	}
	if _, isField := known.FieldAt(name, c.minor); isField {
		return name + " is a field of the configuration: write it in patch"
	}

	return "remove it, or check it against kubelet --help"
}

// describeReplacement names the replacement of a flag that the kubelet of a minor version had.
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
		v.why = " since " + known.Describe(since)
	}
	history, _ := known.FlagHistory(name)
	if removed, isRemoved := history.Gone(); isRemoved && removed > v.minor {
		v.why += ", and removed in " + known.Describe(removed)
	} else if flag.Message != "" {
		v.why += ": " + strings.TrimSuffix(flag.Message, ".")
	}
	if v.Accepts != nil {
		return slices.Contains(v.Accepts.Deprecated, name)
	}

	return flag.Deprecated
}

func reportBadFlags(c *checker) {
	for _, bad := range c.badFlags {
		hint := ""
		if last := c.given[bad.Name]; last != bad.Value {
			hint = fmt.Sprintf("remove this use, which is before --%s=%s: the kubelet parses each use", bad.Name, last)
		}
		c.report(
			"--"+bad.Name,
			hint,
			"invalid argument %q for \"--%s\" flag: %s",
			bad.Value,
			bad.Name,
			bad.err,
		)
	}
}

// reportNoValues reports a flag that needs a value and is the last word.
func reportNoValues(c *checker) {
	for _, f := range c.Flags {
		name := kubelet.FlagName(f.Name)
		if _, isKnown := known.FlagAt(name, c.minor); !f.NoValue || !isKnown && c.hasTables {
			continue // the kubelet refuses an unknown one for its name
		}
		c.report("--"+name, "", "flag needs an argument: --%s", name)
	}
}

// reportTakenFlags reports a flag whose value is another one, by its word.
func reportTakenFlags(c *checker) {
	for _, f := range c.Flags {
		next, _, _ := strings.Cut(f.Value, "=")
		if _, isKnown := known.FlagAt(kubelet.FlagName(next), c.minor); f.TakesFlag && isKnown {
			c.report("--"+kubelet.FlagName(f.Name), "", "it needs a value, and takes the next word: %s", f.Value)
		}
	}
}

func overridesField(v value) bool {
	name := v.path[0][2:]
	flag, _ := known.FlagAt(name, v.minor)
	if flag.Field == "" || name == "feature-gates" || v.Config == nil {
		return false
	}
	v.why = flag.Field
	own, _ := v.Config.Get(tape.Pointer(strings.Split(flag.Field, ".")...))

	return own != nil && !reflect.DeepEqual(own, v.valueAt(flag.Field))
}

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
			c.variesByVersion = true // one before 1.16 accepts it
			c.add(Violation{Flag: "node-labels", Member: label.Key, Message: err.Error()})
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
