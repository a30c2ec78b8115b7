package rules

import (
	"fmt"

	"github.com/prelet/prelet/internal/kubelet/known"
)

const gateSource = "k8s.io/component-base/featuregate/feature_gate.go"

// gateRules returns the rules about feature gates and fields that need them.
func gateRules() []Rule {
	return []Rule{
		{
			ID:      "gate-unknown",
			Lists:   true,
			Summary: "a feature gate that the version does not have",
			Source:  gateSource,
			check:   forEachGate(checkUnknownGate),
		},
		{
			ID:      "gate-locked",
			Lists:   true,
			Summary: "a feature gate that is locked to another value",
			Source:  gateSource,
			check:   forEachGate(checkLockedGate),
		},
		{
			ID:      "gate-dependency",
			Lists:   true,
			Summary: "a feature gate that is on while one that it needs is off",
			Since:   35,
			Source: gateSource + ", Validate; pkg/features/kube_features.go, " +
				"defaultKubernetesFeatureGateDependencies",
			check: checkGateDependencies,
		},
		{
			ID:      "gate-needed",
			Lists:   true,
			Summary: "a field whose feature gate is off",
			Source:  validation,
			check:   checkNeededGates,
		},
		{
			ID:      "gate-needed-silently",
			Lists:   true,
			Summary: "`qosReserved` without its feature gate",
			Effect:  Ignores,
			Source:  "cmd/kubelet/app/server.go, run",
			check:   checkQoSGate,
		},
		{
			ID:       "gate-declares",
			Summary:  "a feature gate that changes which features the node declares",
			Since:    36,
			Effect:   Places,
			Severity: Note,
			Source:   "k8s.io/component-helpers/nodedeclaredfeatures/features",
			check:    checkDeclared,
		},
	}
}

// forEachGate returns a check of each feature gate that is set.
func forEachGate(check func(c *checker, name string, isOn bool)) func(*checker) {
	return func(c *checker) {
		set := c.setGates()
		for _, name := range sortedKeys(set) {
			if isOn, ok := set[name].(bool); ok {
				check(c, name, isOn)
			}
		}
	}
}

func checkUnknownGate(c *checker, name string, _ bool) {
	if _, isKnown := c.findGate(name); isKnown {
		return
	}

	hint := suggest(name, known.Gates(c.minor))
	why := ""
	history, isKnown := known.GateHistory(name)
	c.variesByVersion = isKnown || c.Version != "" // a version older than the tables may have it
	if isKnown {
		hint = "remove it"
		why = fmt.Sprintf(" (kubelets have it %s, %s)", history.When(), c.describeKubelet())
	}
	c.reportMember("featureGates", name, hint, "unrecognized feature gate: %s%s", name, why)
}

func checkLockedGate(c *checker, name string, isOn bool) {
	gate, _ := c.findGate(name)
	c.variesByVersion = true
	if gate.Locked && isOn != gate.On {
		c.reportMember("featureGates", name, "remove it",
			"cannot set feature gate %s to %t, feature is locked to %t", name, isOn, gate.On)
	}
}

// checkGateDependencies reports enabled gates whose dependency is disabled, if the configuration sets one of both.
// The defaults fit together.
func checkGateDependencies(c *checker) {
	set := c.setGates()
	if len(set) == 0 {
		return
	}
	c.variesByVersion = true
	for _, name := range known.Needing(c.minor) {
		for _, needed := range known.Needs(name, c.minor) {
			c.startFinding()
			if !c.isGateOn(name) || c.isGateOn(needed) {
				continue
			}
			for _, cause := range []string{name, needed, "AllAlpha", "AllBeta"} {
				if set[cause] != nil {
					c.reportMember("featureGates", cause,
						fmt.Sprintf("set %s: true too, or remove it", needed),
						"%s is enabled, but depends on features that are disabled: [%s]", name, needed)
					break
				}
			}
		}
	}
}

// gatedField is a field that the kubelet rejects while a feature gate is off.
type gatedField struct {
	field   string
	isUsed  func(*checker, string) bool
	gate    string
	since   int // the first minor version with this rule
	message string
}

var gatedFields = []gatedField{
	{
		field:   "memorySwap",
		isUsed:  (*checker).hasSwapBehavior,
		gate:    "NodeSwap",
		since:   22,
		message: "invalid configuration: memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled",
	},
	{
		field:   "serverTLSBootstrap",
		isUsed:  (*checker).isTrue,
		gate:    "RotateKubeletServerCertificate",
		since:   0,
		message: "invalid configuration: serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate",
	},
	{
		field:  "shutdownGracePeriod",
		isUsed: (*checker).isPositiveDuration,
		gate:   "GracefulNodeShutdown",
		since:  21,
		message: "invalid configuration: specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires " +
			"feature gate GracefulNodeShutdown",
	},
	{
		field:  "shutdownGracePeriodByPodPriority",
		isUsed: (*checker).hasElements,
		gate:   "GracefulNodeShutdownBasedOnPodPriority",
		since:  23,
		message: "invalid configuration: Specifying shutdownGracePeriodByPodPriority requires feature gate " +
			"GracefulNodeShutdownBasedOnPodPriority",
	},
	{
		field:  "imageMaximumGCAge",
		isUsed: (*checker).isNonZeroDuration,
		gate:   "ImageMaximumGCAge",
		since:  29,
		message: "invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option " +
			"imageMaximumGCAge",
	},
	{
		field:  "imagePullCredentialsVerificationPolicy",
		isUsed: (*checker).hasText,
		gate:   "KubeletEnsureSecretPulledImages",
		since:  33,
		message: "invalid configuration: `imagePullCredentialsVerificationPolicy` must not be set if " +
			"KubeletEnsureSecretPulledImages feature gate is not enabled",
	},
	{
		field:  "preloadedImagesVerificationAllowlist",
		isUsed: (*checker).hasElements,
		gate:   "KubeletEnsureSecretPulledImages",
		since:  33,
		message: "invalid configuration: `preloadedImagesVerificationAllowlist` must not be set if " +
			"KubeletEnsureSecretPulledImages feature gate is not enabled",
	},
	{
		field:  "memoryReservationPolicy",
		isUsed: (*checker).isTiered,
		gate:   "MemoryQoS",
		since:  36,
		message: "invalid configuration: memoryReservationPolicy \"TieredReservation\" requires " +
			"MemoryQoS feature gate to be enabled",
	},
	{
		field:  "defaultPodSysctls",
		isUsed: (*checker).hasMembers,
		gate:   "DefaultPodSysctls",
		since:  37,
		message: "invalid configuration: DefaultPodSysctls feature gate is required for Kubelet configuration option " +
			"defaultPodSysctls",
	},
	{
		field:   "enableSystemLogQuery",
		isUsed:  (*checker).isTrue,
		gate:    "NodeLogQuery",
		since:   27,
		message: "invalid configuration: NodeLogQuery feature gate is required for enableSystemLogQuery",
	},
	{
		field:   "topologyManagerPolicyOptions",
		isUsed:  (*checker).isSet,
		gate:    "TopologyManagerPolicyOptions",
		since:   26,
		message: "topology manager policy options require feature gates \"TopologyManagerPolicyOptions\" enabled",
	},
}

func (c *checker) isSet(field string) bool       { return c.valueAt(field) != nil }
func (c *checker) isTrue(field string) bool      { return c.boolAt(field, false) }
func (c *checker) hasText(field string) bool     { return c.textAt(field) != "" }
func (c *checker) isTiered(field string) bool    { return c.textAt(field) == "TieredReservation" }
func (c *checker) hasElements(field string) bool { return len(c.listAt(field)) > 0 }
func (c *checker) hasMembers(field string) bool  { return len(c.mapAt(field)) > 0 }

func (c *checker) hasSwapBehavior(field string) bool {
	return c.textAt(field+".swapBehavior") != ""
}

func (c *checker) isPositiveDuration(field string) bool {
	d, _ := c.durationAt(field)

	return d > 0
}

func (c *checker) isNonZeroDuration(field string) bool {
	d, _ := c.durationAt(field)

	return d != 0
}

func checkNeededGates(c *checker) {
	for _, f := range gatedFields {
		c.startFinding()
		_, hasGate := c.findGate(f.gate)
		isRule := c.minor >= f.since && hasGate
		if isRule && f.isUsed(c, f.field) && !c.isGateOn(f.gate) {
			c.reportField(f.field, fmt.Sprintf("set featureGates: {%s: true}, or remove it", f.gate), "%s",
				f.message)
		}
	}
}

func checkQoSGate(c *checker) {
	if c.hasMembers("qosReserved") && !c.isGateOn("QOSReserved") {
		c.reportField("qosReserved", "set featureGates: {QOSReserved: true}, or remove it",
			"without the feature gate QOSReserved this has no effect")
	}
}
