package boot

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/stages"
)

// finish computes what the kubelet of a merged node keeps from pods, and with which taints it registers: whatever has set
// that, a stage, the base, patch, or a flag. It returns what must not be as diagnostics. isWritten says that the
// renderers have added to the node; before, taints of stages have no place in it.
func (b basis) finish(n node.Node, isWritten bool) (node.Node, hcl.Diagnostics) {
	config, err := stages.EffectiveConfig(n, nil, b.kubelet.Version)
	if err != nil {
		return n, nil // whoever renders the configuration reports it
	}

	_, isSet := n.ConfigOrigins["/registerWithTaints"]
	if _, has := config["registerWithTaints"]; isWritten && !n.TaintFlag && (has || isSet) {
		n.Taints = listTaints(n, config)
	}
	if n.Reserved == nil {
		return n, nil
	}
	reserved, diags := n.Reserved.Finish(config, n.Flags)
	if reserved != nil {
		n.Reserved = reserved
	}

	return n, diags
}

// listTaints returns the taints of a configuration, with their origins.
func listTaints(n node.Node, config map[string]any) (out []node.Taint) {
	list, err := kubelet.ConfigTaints(config)
	if err != nil {
		return n.Taints // judge reports it
	}

	from := n.ConfigOrigins["/registerWithTaints"]
	if len(from) == 0 {
		from = []origin.Origin{{Kind: origin.Base, Role: origin.Value, Ref: "registerWithTaints"}}
	}
	for _, t := range list {
		one := node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, Origins: from}
		if i := slices.IndexFunc(n.Taints, func(o node.Taint) bool { return o.String() == one.String() }); i >= 0 {
			one = n.Taints[i]
		}
		out = append(out, one)
	}

	return out
}
