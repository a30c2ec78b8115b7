package stages

import (
	"maps"
	"slices"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/node"
)

// EffectiveConfig returns the KubeletConfiguration that the kubelet of a node works with: drop-ins merged over the node's
// configuration, in their order, and flags over all. It fails for values that JSON does not have.
//
// Source: cmd/kubelet/app/server.go, NewKubeletCommand. The defaults of evictionHard belong to the file of --config, so
// drop-ins are merged over them.
func EffectiveConfig(n node.Node, dropIns []map[string]any, version *string) (map[string]any, error) {
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
	_ = c.Set([]string{"evictionHard"}, preset) // of texts, and no object around it

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

// Amounts returns a field of a configuration whose members are texts, as kubeReserved; members of other types are the
// kubelet's to refuse.
func Amounts(config map[string]any, field string) map[string]string {
	out := map[string]string{}
	object, _ := config[field].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if s, ok := object[name].(string); ok {
			out[name] = s
		}
	}

	return out
}
