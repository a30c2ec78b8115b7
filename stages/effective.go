package stages

import (
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/node"
)

// EffectiveConfig returns the KubeletConfiguration that the kubelet of a node works with: the node's configuration, the
// drop-ins merged over it in their order, and the flags over both. It fails for values that JSON cannot express.
//
// Source: cmd/kubelet/app/server.go, NewKubeletCommand. The defaults of evictionHard belong to the file of --config, so
// drop-ins are merged over them.
func EffectiveConfig(
	n node.Node,
	dropIns []map[string]any,
	version *string,
) (map[string]any, error) {
	c := kubelet.NewConfig()
	if err := c.Merge(n.Config); err != nil {
		return nil, err
	}

	s := rules.Subject{Config: c}
	if version != nil {
		s.Version = *version
	}

	preset := map[string]any{}
	for signal, threshold := range kubelet.EffectiveEvictionHard(c, s.Version) {
		preset[signal] = threshold
	}
	_ = c.Set([]string{"evictionHard"}, preset) // cannot fail: all values are texts

	for _, d := range dropIns {
		if err := c.Merge(d); err != nil {
			return nil, err
		}
	}

	for _, f := range n.Flags {
		s.Flags = append(s.Flags, rules.Flag{Name: f.Name, Value: f.Value})
	}

	return rules.Effective(s), nil
}

// IsGateOn reports whether a feature gate is on for the kubelet of a node: as it is set, by AllAlpha or AllBeta, or by
// default. isKnown is false where the kubelet's version is not known.
func IsGateOn(n node.Node, version *string, gate string) (isOn, isKnown bool) {
	config, err := EffectiveConfig(n, nil, version)
	if err != nil || version == nil {
		return false, false
	}
	c := kubelet.NewConfig()
	if c.Merge(config) != nil {
		return false, false
	}

	return rules.IsGateOn(rules.Subject{Config: c, Version: *version}, gate)
}

// Amounts returns the members of a field such as kubeReserved that are texts. It leaves members of other types to the
// kubelet, which refuses them.
func Amounts(config map[string]any, field string) map[string]string {
	out := map[string]string{}
	object, _ := config[field].(map[string]any)
	for name, v := range object {
		if s, ok := v.(string); ok {
			out[name] = s
		}
	}

	return out
}
