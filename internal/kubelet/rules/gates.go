package rules

import (
	"fmt"
	"time"

	"github.com/prelet/prelet/internal/kubelet/known"
)

const gateSource = "k8s.io/component-base/featuregate/feature_gate.go"

// gateRules returns the rules about feature gates and fields that need them.
func gateRules() []Rule {
	return []Rule{
		lists(exits("gate-unknown", 0, "a feature gate that the version does not have", gateSource,
			at("featureGates.*", isUnknownGate, "", "unrecognized feature gate: {key}{why}"))),

		lists(exits("gate-locked", 0, "a feature gate that is locked to another value", gateSource,
			at("featureGates.*", isLockedGate, "remove it",
				"cannot set feature gate {key} to {value}, feature is locked to {why}"))),

		lists(exits("gate-dependency", 35, "a feature gate that is on while one that it needs is off",
			gateSource+", Validate; pkg/features/kube_features.go, defaultKubernetesFeatureGateDependencies",
			by(reportGateDependencies))),

		lists(exits("gate-needed", 0, "a field whose feature gate is off", validation,
			needsGate("NodeSwap", "memorySwap", func(v value) bool { return v.has(swapBehavior) },
				"memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled"),
			needsGate("RotateKubeletServerCertificate", "serverTLSBootstrap", isTrue,
				"serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"),
			needsGate("GracefulNodeShutdown", wholePeriod, hasPeriod, "specifying shutdownGracePeriod or "+
				"shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown"),
			needsGate("GracefulNodeShutdownBasedOnPodPriority", periodsByPod, hasElements, "Specifying "+
				"shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority"),
			needsGate("ImageMaximumGCAge", maxAge, isDuration(func(d time.Duration) bool { return d != 0 }),
				"ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge"),
			needsGate("KubeletEnsureSecretPulledImages", pullPolicy, hasText, "`{field}` "+
				"must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"),
			needsGate("KubeletEnsureSecretPulledImages", allowlist, hasElements, "`{field}` "+
				"must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"),
			needsGate("MemoryQoS", "memoryReservationPolicy",
				func(v value) bool { return v.raw == "TieredReservation" },
				`memoryReservationPolicy "TieredReservation" requires MemoryQoS feature gate to be enabled`),
			needsGate("DefaultPodSysctls", "defaultPodSysctls", hasElements,
				"DefaultPodSysctls feature gate is required for Kubelet configuration option defaultPodSysctls"),
			needsGate("NodeLogQuery", "enableSystemLogQuery", isTrue,
				"NodeLogQuery feature gate is required for enableSystemLogQuery"),
			at("topologyManagerPolicyOptions", lacksGate("TopologyManagerPolicyOptions", isSet),
				"set featureGates: {TopologyManagerPolicyOptions: true}, or remove it",
				`topology manager policy options require feature gates "TopologyManagerPolicyOptions" enabled`))),

		lists(ignores("gate-needed-silently", 0, "`qosReserved` without its feature gate",
			"cmd/kubelet/app/server.go, run",
			at("qosReserved", lacksGate("QOSReserved", hasElements),
				"set featureGates: {QOSReserved: true}, or remove it",
				"without the feature gate QOSReserved this has no effect"))),

		row(Places, Note, "gate-declares", 36,
			"a feature gate that changes which features the node declares",
			"k8s.io/component-helpers/nodedeclaredfeatures/features",
			by(reportDeclared)),
	}
}

func hasPeriod(v value) bool {
	d, _ := v.duration()

	return d > 0 && v.minor >= 21
}

func isUnknownGate(v value) bool {
	_, isBool := v.raw.(bool)
	if _, isKnown := v.findGate(v.key()); isKnown || !isBool {
		return false
	}

	history, isKnown := known.GateHistory(v.key())
	v.variesByVersion = isKnown || v.Version != "" // a version older than the tables may have it
	if !isKnown {
		return v.because(suggest(v.key(), known.Gates(v.minor)), "")
	}

	return v.because("remove it", " (kubelets have it %s, %s)", history.When(), v.describeKubelet())
}

func isLockedGate(v value) bool {
	gate, _ := v.findGate(v.key())
	isOn, isBool := v.raw.(bool)
	v.variesByVersion = true
	v.why = fmt.Sprint(gate.On)

	return isBool && gate.Locked && isOn != gate.On
}

// reportGateDependencies reports enabled gates whose dependency is disabled, if the configuration sets one of both.
// The defaults fit together.
func reportGateDependencies(c *checker) {
	set := c.setGates()
	if len(set) == 0 {
		return
	}
	for _, name := range known.Needing(c.minor) {
		for _, needed := range known.Needs(name, c.minor) {
			c.startFinding()
			c.variesByVersion = true
			if !c.isGateOn(name) || c.isGateOn(needed) {
				continue
			}
			for _, cause := range []string{name, needed, "AllAlpha", "AllBeta"} {
				if set[cause] != nil {
					c.reportAt([]string{"featureGates", cause}, fmt.Sprintf("set %s: true too, or remove it", needed),
						"%s is enabled, but depends on features that are disabled: [%s]", name, needed)
					break
				}
			}
		}
	}
}
