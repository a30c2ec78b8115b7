package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/kubelet/known"
)

const featureGate = "k8s.io/component-base/featuregate/feature_gate.go"

// gateRules mind feature gates as they are set.
func gateRules() []Rule {
	each := func(f func(l *look, name string, on bool)) func(*look) {
		return func(l *look) {
			set, _ := l.doc["featureGates"].(map[string]any)
			for _, name := range sorted(set) {
				if on, ok := set[name].(bool); ok {
					f(l, name, on)
				}
			}
		}
	}
	return []Rule{
		{ID: "gate-unknown", Minds: "a feature gate that the version does not know", Does: Exits, Severity: Error, Alone: true, Source: featureGate, check: each(func(l *look, name string, _ bool) {
			if _, ok := l.gateOf(name); ok {
				return
			}
			path := []string{"featureGates", name}
			h, ever := known.GateHistory(name)
			hint, when := choose1(name, known.Gates(l.minor)), ""
			if ever {
				when = fmt.Sprintf(" (it is there %s, and this is judged for %s)", h.When(), l.version())
				hint = "take it out"
				if gone, isGone := h.Gone(); isGone && l.minor >= gone {
					hint = fmt.Sprintf("take it out: it went with 1.%d", gone)
				}
			}
			l.vague(path, hint, "unrecognized feature gate: %s%s", name, when)
		})},
		{ID: "gate-locked", Minds: "a feature gate that is locked to its default, set otherwise", Does: Exits, Severity: Error, Alone: true, Source: featureGate, check: each(func(l *look, name string, on bool) {
			if g, ok := l.gateOf(name); ok && g.Locked && on != g.On {
				l.vague([]string{"featureGates", name}, "take it out", "cannot set feature gate %s to %t, feature is locked to %t", name, on, g.On)
			}
		})},
		{ID: "gate-dependency", Minds: "a feature gate that is on while one that it needs is off", Since: 35, Does: Exits, Severity: Error, Source: featureGate + ", Validate; pkg/features/kube_features.go, defaultKubernetesFeatureGateDependencies", check: (*look).dependencies},
	}
}

// dependencies minds what the site turns on or off of two gates that belong together; among the defaults all is well.
func (l *look) dependencies() {
	set, _ := l.doc["featureGates"].(map[string]any)
	for _, name := range known.Needing(l.minor) {
		if len(set) == 0 || !l.gate(name) {
			continue
		}
		for _, need := range known.Needs(name, l.minor) {
			l.fresh()
			if !l.gate(name) || l.gate(need) {
				continue
			}
			for _, at := range []string{name, need, "AllAlpha", "AllBeta"} {
				if set[at] != nil {
					l.vague([]string{"featureGates", at}, fmt.Sprintf("set %s: true too, or take it out", need), "%s is enabled, but depends on features that are disabled: [%s]", name, need)
					break
				}
			}
		}
	}
}

// vague is at for what the tables alone tell: of a version that is not known it may be wrong.
func (l *look) vague(path []string, hint, format string, args ...any) {
	l.at(path, hint, format, args...)
	if !l.exact {
		f := &l.found[len(l.found)-1]
		f.Severity, f.Vague = Warning, true
	}
}

// choose1 is choose for a list that is too long to be shown.
func choose1(word string, all []string) string {
	if s := choose(word, all); strings.HasPrefix(s, "did you mean") {
		return s
	}
	return "take it out"
}

// gatedRules mind what only works with a feature gate, and what the kubelet then refuses.
func gatedRules() []Rule {
	type need struct {
		field string
		set   func(l *look) bool
		gate  string
		since int
		says  string
	}
	isSet := func(path ...string) func(*look) bool {
		return func(l *look) bool { return l.inner(path...) != nil }
	}
	needs := []need{
		{"memorySwap", func(l *look) bool { s, _ := l.inner("memorySwap", "swapBehavior").(string); return s != "" }, "NodeSwap", 22, "invalid configuration: memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled"},
		{"serverTLSBootstrap", func(l *look) bool { return l.boolean("serverTLSBootstrap", false) }, "RotateKubeletServerCertificate", 0, "invalid configuration: serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"},
		{"shutdownGracePeriod", func(l *look) bool { d, _ := l.duration("shutdownGracePeriod"); return d > 0 }, "GracefulNodeShutdown", 21, "invalid configuration: specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown"},
		{"shutdownGracePeriodByPodPriority", func(l *look) bool { return len(l.list("shutdownGracePeriodByPodPriority")) > 0 }, "GracefulNodeShutdownBasedOnPodPriority", 23, "invalid configuration: Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority"},
		{"imageMaximumGCAge", func(l *look) bool { d, _ := l.duration("imageMaximumGCAge"); return d != 0 }, "ImageMaximumGCAge", 29, "invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge"},
		{"imagePullCredentialsVerificationPolicy", func(l *look) bool { return l.text("imagePullCredentialsVerificationPolicy") != "" }, "KubeletEnsureSecretPulledImages", 33, "invalid configuration: `imagePullCredentialsVerificationPolicy` must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"},
		{"preloadedImagesVerificationAllowlist", isSet("preloadedImagesVerificationAllowlist"), "KubeletEnsureSecretPulledImages", 33, "invalid configuration: `preloadedImagesVerificationAllowlist` must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"},
		{"memoryReservationPolicy", func(l *look) bool { return l.text("memoryReservationPolicy") == "TieredReservation" }, "MemoryQoS", 36, "invalid configuration: memoryReservationPolicy \"TieredReservation\" requires MemoryQoS feature gate to be enabled"},
		{"defaultPodSysctls", func(l *look) bool { return len(l.stringMap("defaultPodSysctls")) > 0 }, "DefaultPodSysctls", 37, "invalid configuration: DefaultPodSysctls feature gate is required for Kubelet configuration option defaultPodSysctls"},
		{"enableSystemLogQuery", func(l *look) bool { return l.boolean("enableSystemLogQuery", false) }, "NodeLogQuery", 27, "invalid configuration: NodeLogQuery feature gate is required for enableSystemLogQuery"},
		{"topologyManagerPolicyOptions", isSet("topologyManagerPolicyOptions"), "TopologyManagerPolicyOptions", 26, "topology manager policy options require feature gates \"TopologyManagerPolicyOptions\" enabled"},
	}
	return []Rule{{ID: "gate-needed", Minds: "a field that only works with a feature gate, which is off", Does: Exits, Severity: Error, Source: validation, check: func(l *look) {
		for _, n := range needs {
			l.fresh()
			if _, there := l.gateOf(n.gate); l.minor >= n.since && there && n.set(l) && !l.gate(n.gate) {
				l.field(n.field, fmt.Sprintf("set featureGates: {%s: true}, or take it out", n.gate), "%s", n.says)
			}
		}
	}}, {ID: "gate-needed-silently", Minds: "`qosReserved` without its feature gate", Does: Swallows, Severity: Warning, Source: "cmd/kubelet/app/server.go, run", check: func(l *look) {
		if len(l.stringMap("qosReserved")) > 0 && !l.gate("QOSReserved") {
			l.field("qosReserved", "set featureGates: {QOSReserved: true}, or take it out", "without the feature gate QOSReserved this has no effect")
		}
	}}}
}

// parseGates reads A=true,B=false as the flag does.
func parseGates(text string) (map[string]any, error) {
	m := map[string]any{}
	for _, part := range strings.Split(text, ",") {
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("missing bool value for %s", part)
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("invalid value of %s: %s, err: %w", name, value, err)
		}
		m[strings.TrimSpace(name)] = on
	}
	return m, nil
}
