package boot

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// finish computes what the kubelet of a merged node keeps from pods, and with which taints it registers: whatever has set
// that, a stage, the base, patch, or a flag. It returns what must not be as diagnostics. isWritten says that the
// renderers have added to the node; before, taints of stages have no place in it.
func (b basis) finish(n node.Node, isWritten bool) (node.Node, hcl.Diagnostics) {
	late := compareLate(n)
	n = inherit(n)
	own := kubelet.NewConfig()
	for _, s := range n.Settings {
		if !s.Delete { // a drop-in has a value that says so, or is refused
			_ = own.Set(s.Path, s.Value) // whoever renders it reports an error
		}
	}
	base, dropIns := b.separate(n, own.Object())
	config, err := b.mergeDropIns(base, dropIns)
	if err != nil {
		return n, nil // whoever renders the configuration reports it
	}
	n.Effective = config

	var diags hcl.Diagnostics
	_, isSet := n.ConfigOrigins["/registerWithTaints"]
	if _, has := config["registerWithTaints"]; isWritten && !n.TaintFlag && (has || isSet) {
		planned := n.Taints
		n.Taints = listTaints(n, config, dropIns)
		diags = checkTaintsStay(n, planned, dropIns)
	}
	if isWritten {
		diags = slices.Concat(diags, compareDropIns(n, dropIns), late)
	}
	if n.Reserved == nil {
		return n, diags
	}
	reserved, refused := n.Reserved.Finish(config, n.Flags)
	if sure := sureOf(n); refused.HasErrors() && len(sure.Flags) < len(n.Flags) {
		base.Flags = sure.Flags
		config, err := b.mergeDropIns(base, dropIns)
		if again, more := n.Reserved.Finish(config, sure.Flags); err == nil && !more.HasErrors() {
			reserved, refused = again, append(soften(refused), more...)
		}
	}
	if reserved != nil {
		n.Reserved = reserved
	}

	return n, append(diags, refused...)
}

// separate returns a node with the configuration of the kubelet's --config, and the drop-ins that the kubelet merges over
// it, in their order: those of the image, and the one that the plan writes, which is own.
func (b basis) separate(n node.Node, own map[string]any) (node.Node, []dropIn) {
	i := slices.IndexFunc(n.Flags, func(f node.Flag) bool { return f.Name == "config-dir" })
	if i < 0 || b.readDropIns == nil {
		return n, nil
	}

	dropIns := slices.DeleteFunc(b.readDropIns(n.Flags[i].Value), func(d dropIn) bool { return d.path == n.DropIn })
	if n.DropIn != "" {
		at := slices.IndexFunc(dropIns, func(d dropIn) bool { return d.path > n.DropIn })
		if at < 0 {
			at = len(dropIns)
		}
		dropIns = slices.Insert(dropIns, at, dropIn{n.DropIn, own})
		n.Config = dropDeleted(b.base.Config, n.Settings)
	}

	return n, dropIns
}

// mergeDropIns returns the configuration that the kubelet of a separated node works with.
func (b basis) mergeDropIns(base node.Node, dropIns []dropIn) (map[string]any, error) {
	var configs []map[string]any
	for _, d := range dropIns {
		configs = append(configs, d.config)
	}

	return stages.EffectiveConfig(base, configs, b.kubelet.Version)
}

// dropDeleted returns a configuration without the fields that settings take away.
func dropDeleted(config map[string]any, settings []node.Setting) map[string]any {
	c := kubelet.NewConfig()
	if c.Merge(config) != nil {
		return config
	}
	for _, s := range settings {
		if s.Delete {
			_ = c.Set(s.Path, nil) // there is nothing to take away then
		}
	}

	return c.Object()
}

// dropIn is a drop-in of the kubelet's configuration that the image has.
type dropIn struct {
	path   string
	config map[string]any
}

// listDropIns returns the configurations in a folder of drop-ins, without the one that the plan writes.
func (b basis) listDropIns(dir string) (out []map[string]any) {
	if b.readDropIns == nil {
		return nil
	}
	for _, d := range b.readDropIns(dir) {
		out = append(out, d.config)
	}

	return out
}

// readDropIns asks for the drop-ins of a folder, as they are without prelet. One that cannot be read or is no configuration
// is left out: the kubelet refuses to start with it.
func (in decideInput) readDropIns(dir string) (out []dropIn) {
	if in.tape == nil {
		return nil
	}
	list, _, err := world.DropIns.Ask(in.eval.AskContext(), in.tape, world.DropInsReq{Dir: dir})
	if err != nil {
		return nil
	}
	for _, path := range list.Paths {
		a, err := in.readOriginal(path)
		if err != nil || !a.Exists {
			continue
		}
		if c, err := kubelet.ParseConfig(a.Text); err == nil {
			out = append(out, dropIn{path, c.Object()})
		}
	}

	return out
}

// listTaints returns the taints of a configuration, with their origins.
func listTaints(n node.Node, config map[string]any, dropIns []dropIn) (out []node.Taint) {
	list, err := kubelet.ConfigTaints(config)
	if err != nil {
		return n.Taints // judge reports it
	}

	from := n.ConfigOrigins["/registerWithTaints"]
	if d := findLast(dropIns, "registerWithTaints"); d != nil && d.path != n.DropIn {
		from = []origin.Origin{{Kind: origin.Base, Role: origin.Value, Ref: d.path}}
	}
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
