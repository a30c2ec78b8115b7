package rules

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// DropInVariable is the environment variable without which a kubelet of 1.28 or 1.29 does not start with --config-dir.
const DropInVariable = "KUBELET_CONFIG_DROPIN_DIR_ALPHA"

const optionsSource = "cmd/kubelet/app/options"

// flagRules mind the command line.
func flagRules() []Rule {
	each := func(f func(*look, Flag)) func(*look) {
		return func(l *look) {
			for i, fl := range l.Flags {
				if !slices.ContainsFunc(l.Flags[i+1:], func(o Flag) bool { return o.Name == fl.Name }) {
					f(l, fl)
				}
			}
		}
	}
	return []Rule{
		{ID: "flag-unknown", Minds: "a flag that this kubelet does not have: it went, is still to come, or is misspelt", Does: Exits, Severity: Error, Alone: true, Source: optionsSource, check: each((*look).unknownFlag)},
		{ID: "flag-deprecated", Minds: "a flag that the kubelet takes and a later one will not", Does: Later, Severity: Warning, Alone: true, Source: optionsSource, check: each((*look).deprecatedFlag)},
		{ID: "flag-bad-value", Minds: "a value that a flag cannot take", Does: Exits, Severity: Error, Alone: true, Source: "github.com/spf13/pflag", check: func(l *look) {
			for _, b := range l.bad {
				l.flag(b.name, "", "invalid argument %q for \"--%s\" flag: %s", b.value, b.name, b.why)
			}
		}},
		{ID: "flag-overrides-config", Minds: "a flag that says something else than the field of the configuration: the flag wins", Does: Swallows, Severity: Warning, Alone: true, Source: "cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence", check: each((*look).overridden)},
		{ID: "flag-root-dir", Minds: "a `--root-dir` that is not absolute", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/kubelet.go, setupDataDirs", check: each(func(l *look, f Flag) {
			if f.Name == "root-dir" && !strings.HasPrefix(f.Value, "/") {
				l.flag(f.Name, "write an absolute path", "error configuring root directory: cannot find mount point for %q", f.Value)
			}
		})},
		{ID: "flag-container-age", Minds: "a negative `--minimum-container-ttl-duration`", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/container/container_gc.go, NewContainerGC", check: each(func(l *look, f Flag) {
			if age, err := time.ParseDuration(f.Value); f.Name == "minimum-container-ttl-duration" && err == nil && age < 0 {
				l.flag(f.Name, "", "failed to create kubelet: invalid minimum garbage collection age: %s", age)
			}
		})},
		{ID: "flag-config-dir", Minds: "`--config-dir` in 1.28 and 1.29 without the environment variable that it needs there; a warning where nobody knows whether it is set", Since: 28, Until: 30, Does: Exits, Severity: Error, Alone: true, Source: "cmd/kubelet/app/server.go", check: each(func(l *look, f Flag) {
			if f.Name != "config-dir" || f.Value == "" || l.DropInVariable != nil && *l.DropInVariable {
				return
			}
			found := Finding{Flag: f.Name, Severity: Warning,
				Hint: "set Environment=" + DropInVariable + "=1 in a drop-in of the kubelet's unit, or write the whole file: layout = \"file\"",
				Message: fmt.Sprintf("flag %s specified but environment variable %s not set, cannot start kubelet (it is needed in 1.28 and 1.29)",
					f.Value, DropInVariable)}
			if l.DropInVariable != nil {
				found.Severity = Error
			}
			l.add(found)
		})},
		{ID: "flag-node-labels", Minds: "labels that are malformed, or that no kubelet may set on its own node", Does: Exits, Severity: Error, Alone: true, Source: optionsSource + ", ValidateKubeletFlags", check: each(func(l *look, f Flag) {
			if f.Name != "node-labels" {
				return
			}
			labels, err := kubelet.ParseLabels(f.Value)
			if err != nil {
				l.flag(f.Name, "", "invalid node labels: %s", err)
			}
			for _, label := range labels {
				if err := kubelet.CheckNodeKey(label.Key, l.Version); err != nil {
					l.flag(f.Name, "", "%s", err)
				}
			}
		})},
		{ID: "flag-taints", Minds: "malformed taints, and one key with the same effect twice", Does: Exits, Severity: Error, Alone: true, Source: "pkg/util/taints", check: each(func(l *look, f Flag) {
			if f.Name == "register-with-taints" {
				if _, err := kubelet.ParseTaints(f.Value); err != nil {
					l.flag(f.Name, "", "invalid argument %q for \"--register-with-taints\" flag: %s", f.Value, err)
				}
			}
		})},
		{ID: "flag-node-ip", Minds: "a `--node-ip` that is no address", Does: Swallows, Severity: Warning, Alone: true, Source: "k8s.io/component-helpers/node/util/ips.go, ParseNodeIPArgument", check: each(func(l *look, f Flag) {
			if f.Name != "node-ip" {
				return
			}
			_, ignored, _ := nodeIPs(f.Value)
			for _, s := range ignored {
				l.flag(f.Name, "", "%q is no IP address: the kubelet ignores it without a word, and the Node gets another", s)
			}
		})},
		{ID: "flag-node-ips", Minds: "a `--node-ip` of several addresses that are no dual-stack pair", Does: Exits, Severity: Error, Alone: true, Source: "k8s.io/component-helpers/node/util/ips.go, ParseNodeIPArgument", check: each(func(l *look, f Flag) {
			if f.Name == "node-ip" {
				if _, _, refused := nodeIPs(f.Value); refused != "" {
					l.flag(f.Name, "name one address, or one of IPv4 and one of IPv6", "bad --node-ip %q: %s", f.Value, refused)
				}
			}
		})},
		{ID: "flag-cloud-provider", Minds: "a built-in cloud provider: they are off from 1.29 on unless a gate says otherwise, and gone with 1.31", Since: 29, Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/kubelet.go, NewMainKubelet; k8s.io/cloud-provider/plugins.go", check: each(func(l *look, f Flag) {
			builtIn := l.minor >= 33 || (l.minor >= 31 || !l.Part) && l.gate("DisableCloudProviders") && slices.Contains([]string{"aws", "azure", "gce", "openstack", "vsphere"}, f.Value)
			if f.Name == "cloud-provider" && f.Value != "" && f.Value != "external" && builtIn {
				l.flag(f.Name, "write external, and let the provider's controller run in the cluster; or take it out", "cloud provider %q was specified, but built-in cloud providers are disabled (the kubelet is %s; they are gone since 1.31)", f.Value, l.version())
			}
		})},
		{ID: "flag-together", Minds: "`--exit-on-lock-contention`, or one of the two flags of image credential providers, without the flag that it needs", Since: 24, Does: Exits, Severity: Error, Source: "cmd/kubelet/app/server.go, run; pkg/credentialprovider/plugin", check: each((*look).together)},
		{ID: "flag-hostname", Minds: "a `--hostname-override` that is no name of a Node", Does: Swallows, Severity: Error, Alone: true, Source: "k8s.io/component-helpers/node/util/hostname.go; the API server's validation of Node names", check: each(func(l *look, f Flag) {
			if f.Name == "hostname-override" && f.Value != "" {
				if why := content.IsDNS1123Subdomain(strings.ToLower(strings.TrimSpace(f.Value))); len(why) > 0 {
					l.flag(f.Name, "", "%q is no name of a Node, so the kubelet runs and never has one: %s", f.Value, strings.Join(why, "; "))
				}
			}
		})},
	}
}

// together minds a flag without the other that it needs.
func (l *look) together(f Flag) {
	l.guessed = l.Part // the base may have the other one
	const needs = `exit-on-lock-contention lock-file cannot exit on lock file contention: no lock file specified
image-credential-provider-config image-credential-provider-bin-dir plugin binary directory  did not exist
image-credential-provider-bin-dir image-credential-provider-config credential provider config path is empty`
	for line := range strings.Lines(needs) {
		w := strings.SplitN(strings.TrimSpace(line), " ", 3)
		given := slices.ContainsFunc(l.Flags, func(o Flag) bool { return o.Name == w[1] && o.Value != "" })
		if f.Name == w[0] && !given && f.Value != "" && f.Value != "false" {
			l.flag(f.Name, "set --"+w[1]+" too, or take it out", "%s", w[2])
		}
	}
}

// nodeIPs reads --node-ip: its addresses, what the kubelet leaves out of it, and why it ends with it.
func nodeIPs(value string) (ips []netip.Addr, ignored []string, refused string) {
	for _, s := range strings.Split(value, ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil {
			ips = append(ips, a)
		} else if s != "" {
			ignored = append(ignored, s)
		}
	}
	switch {
	case len(ips) > 2 || len(ips) == 2 && ips[0].Is4() == ips[1].Is4():
		refused = "must contain either a single IP or a dual-stack pair of IPs"
	case len(ips) == 2 && (ips[0].IsUnspecified() || ips[1].IsUnspecified()):
		refused = "dual-stack node IP cannot include '0.0.0.0' or '::'"
	}
	return ips, ignored, refused
}

// unknownFlag minds a flag that this kubelet does not have: one that went, one that is still to come, or none at all.
// What the binary says is the truth; where it was not asked the tables are, as far as they reach.
func (l *look) unknownFlag(f Flag) {
	_, listed := known.FlagAt(f.Name, l.minor)
	if l.Accepts != nil {
		// The help does not list what is hidden.
		if k, ok := known.FlagAt(f.Name, l.minor); ok && k.Hidden {
			return
		}
		_, listed = l.Accepts.Flags[f.Name]
	}
	if listed || f.Name == "h" {
		return
	}
	oldest, newest := known.Range()
	h, ever := known.FlagHistory(f.Name)
	gone, isGone := h.Gone()
	finding := Finding{Flag: f.Name, Message: "failed to parse kubelet flag: unknown flag: --" + f.Name}
	if l.Accepts == nil && !l.exact {
		finding.Severity, finding.Vague = Warning, true
	}
	switch {
	case finding.Vague && ever && isGone:
		finding.Message = fmt.Sprintf("--%s went with 1.%d: a newer kubelet does not start with it", f.Name, gone)
		finding.Hint = "take it out" + l.instead(f.Name, gone-1)
	case finding.Vague:
		finding.Message = fmt.Sprintf("no kubelet from 1.%d to 1.%d has the flag --%s", oldest, newest, f.Name)
		finding.Hint = l.meantFlag(f.Name)
	case ever && isGone && l.minor >= gone:
		finding.Message += fmt.Sprintf(" (it went with 1.%d, the kubelet is %s)", gone, l.version())
		finding.Hint = "take it out" + l.instead(f.Name, gone-1)
	case ever && h.Since() > l.minor:
		finding.Message += fmt.Sprintf(" (it came with 1.%d, the kubelet is %s)", h.Since(), l.version())
		finding.Hint = "take it out, or use a newer kubelet"
	default:
		finding.Hint = l.meantFlag(f.Name)
	}
	l.add(finding)
}

func (l *look) meantFlag(name string) string {
	if near := kubelet.Nearest(name, known.Flags(l.minor)); near != "" {
		return "did you mean --" + near + "?"
	}
	if _, ok := known.FieldAt(name, l.minor); ok {
		return name + " is a field of the configuration: write it in patch"
	}
	return "take it out, or check it against kubelet --help"
}

// instead says what takes a flag's place.
func (l *look) instead(name string, minor int) string {
	f, _ := known.FlagAt(name, minor)
	if f.Field != "" {
		if _, ok := known.FieldAt(f.Field, l.minor); ok {
			return ", and write " + f.Field + " in the configuration"
		}
	}
	if f.Says != "" {
		return ". Kubernetes said: " + strings.TrimSuffix(f.Says, ".")
	}
	return ""
}

func (l *look) deprecatedFlag(f Flag) {
	k, ok := known.FlagAt(f.Name, l.minor)
	deprecated := ok && k.Deprecated
	if l.Accepts != nil {
		deprecated = l.Accepts.Flags[f.Name]
	}
	if !deprecated {
		return
	}
	message := "--" + f.Name + " is deprecated"
	if since, ok := known.FlagDeprecated(f.Name); ok && since > 0 && since <= l.minor {
		message += fmt.Sprintf(" since 1.%d", since)
	}
	h, _ := known.FlagHistory(f.Name)
	if gone, isGone := h.Gone(); isGone && gone > l.minor {
		message += fmt.Sprintf(", and went with 1.%d", gone)
	} else if k.Says != "" {
		message += ": " + strings.TrimSuffix(k.Says, ".")
	}
	hint := "take it out"
	if k.Field != "" {
		hint = "write " + k.Field + " in the configuration"
	}
	l.flag(f.Name, hint, "%s", message)
}

// overridden minds a field that both a flag and the configuration set: the flag wins.
func (l *look) overridden(f Flag) {
	k, ok := known.FlagAt(f.Name, l.minor)
	if !ok || k.Field == "" || f.Name == "feature-gates" {
		return
	}
	says, set := l.setting(k.Field)
	if !set || reflect.DeepEqual(says, l.inner(strings.Split(k.Field, ".")...)) {
		return
	}
	l.flag(f.Name, "take the flag out, or "+k.Field, "the configuration has %s too, and the flag wins without a word", k.Field)
}
