package write

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// additions are the flags and settings that the stage adds to the node, and where the node's taints go.
type additions struct {
	node.Contribution
	diags        hcl.Diagnostics
	whole        bool // false: some of it is not known yet
	taintsInFlag bool // taints go to the flag, and not to the configuration

	isConfigUnread, areFlagsUnread bool // a recording does not have them
}

// Add implements stages.Adder: the patch of the configuration, the flags, and the node's taints where the configuration
// has them.
func (Stage) Add(cfg schema.Body, n node.Node, in stages.Inputs) (node.Contribution, hcl.Diagnostics) {
	a := readAdditions(cfg, n, in)

	return a.Contribution, a.diags
}

// readAdditions is a function of the configuration and of the node's taints, to which the stage adds nothing: so Render,
// which sees the merged node, comes to the same.
func readAdditions(cfg schema.Body, n node.Node, in stages.Inputs) additions {
	r := &adder{in: in, additions: additions{whole: true}}
	config, hasConfig := cfg.One("kubelet_config")
	fl, hasFlags := cfg.One("kubelet_flags")
	if hasConfig {
		r.patch(config)
	}
	if hasFlags {
		r.flags(fl)
		r.taintsInFlag = r.putTaintsInFlag(fl)
	}
	if hasFlags && in.Unread.Kubelet && len(n.Taints) > 0 && !in.Base.TaintFlag && flagsTaints.Of(fl).V == "auto" {
		r.areFlagsUnread, r.isConfigUnread = true, true // the kubelet's version would say where they go
	}
	if !hasConfig {
		return r.additions
	}

	switch {
	case !r.taintsInFlag:
		r.registerWithTaints(n)
	case configLayout.Of(config).V == "file" && in.Base.Config["registerWithTaints"] != nil:
		// The flag wins silently over the configuration, so the list is in the flag, and only there.
		r.Settings = append(r.Settings, node.Setting{
			Path: []string{"registerWithTaints"}, Delete: true, Origins: place(in.Address, fl.Range),
		})
	}
	if hasFlags && configLayout.Of(config).V == "drop-in" {
		r.Flags = append(r.Flags, node.Flag{
			Name: "config-dir", Value: dropInDir(config, in), Origins: place(in.Address, config.Range),
		})
	}

	return r.additions
}

// adder collects the additions.
type adder struct {
	in stages.Inputs
	additions
}

func (r *adder) patch(b schema.Body) {
	v := configPatch.Of(b)
	u, secrets, unread := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		r.fail(fault.Sensitive, v.Range, "A secret cannot be used in the kubelet's configuration", "Every pod that may read /configz sees it. Put it in a file of its own.")
		return
	case len(unread) > 0:
		r.isConfigUnread = true
		r.diags = append(r.diags, origin.NotRead(v.Range, "patch", unread))
		return
	case u.IsKnown() && u.IsNull():
		return
	case !u.IsWhollyKnown():
		r.whole = false
		return
	}
	g, err := value.ToGo(u)
	m, ok := g.(map[string]any)
	if err != nil || !ok {
		r.fail(fault.WrongType, v.Range, "Wrong type for patch", "An object with fields of KubeletConfiguration is needed.")
		return
	}
	from := func(path []string) []origin.Origin { return v.ItemOrigins(path[0]) }
	settings := node.Leaves(m, from)
	for _, s := range settings {
		if s.Delete && configLayout.Of(b).V == "drop-in" {
			r.fail(fault.ConfigInvalid, v.ItemRange(s.Path[0]), "A drop-in cannot take a field away", "%s = null: the kubelet merges drop-ins over config.yaml, and has no way to remove. Set another value, or use layout = \"file\".", strings.Join(s.Path, "."))
		}
	}
	r.Settings = append(r.Settings, settings...)
}

func (r *adder) fail(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Error(c, at, summary, detail, args...))
}

// flags adds what the site writes in `flags`, and the node's name and address.
func (r *adder) flags(b schema.Body) {
	if p := r.in.Node.Name; p != nil {
		r.Flags = append(r.Flags, node.Flag{Name: "hostname-override", Value: *p, Origins: place("node.name", r.in.Node.NameRange)})
	}
	if p := r.in.Node.IP; p != nil {
		r.Flags = append(r.Flags, node.Flag{Name: "node-ip", Value: *p, Origins: place("node.ip", r.in.Node.IPRange)})
	}
	v := flagsValues.Of(b)
	u, secrets, unread := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		r.fail(fault.Sensitive, v.Range, "A secret cannot be used in flags", "Everybody on the node reads the kubelet's command line.")
		return
	case len(unread) > 0:
		r.areFlagsUnread = true
		r.diags = append(r.diags, origin.NotRead(v.Range, "flags", unread))
		return
	case u.IsKnown() && u.IsNull():
		return
	case !u.IsKnown():
		r.whole = false
		return
	case !u.Type().IsObjectType() && !u.Type().IsMapType():
		r.fail(fault.WrongType, v.Range, "Wrong type for flags", "A map of names to values is needed.")
		return
	}
	m := u.AsValueMap()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := v.ItemRange(name)
		x := m[name]
		switch {
		case strings.HasPrefix(name, "-"):
			r.fail(fault.FlagsInvalid, at, "A flag's name has no dashes", "Write %q.", strings.TrimLeft(name, "-"))
		case name == nodeLabels || name == taintFlag:
			r.fail(fault.Conflict, at, "--"+name+" is made of stages", "Labels come from stage \"label\", taints from stage \"taint\": so each has one owner, and explain can tell it.")
		case !x.IsKnown():
			r.whole = false
		case x.IsNull():
			note := origin.Note(fault.NullFact, at, "No flag --"+name, "Its value is null on this machine.")
			if slices.ContainsFunc(r.in.Base.Flags, func(f node.Flag) bool { return f.Name == name }) {
				note = origin.Note(fault.NullFact, at, "Flag --"+name+" stays as the base has it", "Its value here is null, and that takes nothing away.")
			}
			r.diags = append(r.diags, note)
		default:
			s, err := convert.Convert(x, cty.String)
			if err != nil {
				r.fail(fault.WrongType, at, "Wrong value for --"+name, "%s.", err)
				continue
			}
			r.Flags = append(r.Flags, node.Flag{Name: name, Value: s.AsString(), Origins: v.ItemOrigins(name)})
		}
	}
}

// putTaintsInFlag reports whether taints go to the flag and not to the configuration: the flag wins silently over the
// configuration, so taints are in one place only.
func (r *adder) putTaintsInFlag(b schema.Body) bool {
	switch flagsTaints.Of(b).V {
	case "flag":
		return true
	case "config":
		if r.in.Base.TaintFlag {
			r.fail(fault.Conflict, flagsTaints.Of(b).Range, "The base has --register-with-taints", "It would win over registerWithTaints without a word. Write taints = \"flag\", or take it out of the base.")
		}
		return false
	}
	return r.in.Base.TaintFlag || r.in.Kubelet.Version != nil && tooOldForConfigTaints(*r.in.Kubelet.Version)
}

// tooOldForConfigTaints: registerWithTaints came with 1.23 (kubernetes/kubernetes CHANGELOG-1.23).
func tooOldForConfigTaints(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor)
	return n == 2 && major == 1 && minor < 23
}

// registerWithTaints puts the node's taints in the configuration, unless it has the same set already.
func (r *adder) registerWithTaints(n node.Node) {
	if len(n.Taints) == 0 {
		return
	}
	var list []any
	same := len(n.Taints) == len(r.in.Base.Taints)
	var from []origin.Origin
	for _, t := range n.Taints {
		m := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			m["value"] = t.Value
		}
		list = append(list, m)
		same = same && slices.ContainsFunc(r.in.Base.Taints, func(b node.Taint) bool { return b.String() == t.String() })
		from = append(from, t.Origins...)
	}
	if !same {
		r.Settings = append(r.Settings, node.Setting{Path: []string{"registerWithTaints"}, Value: list, Origins: from})
	}
}

func place(ref string, at hcl.Range) []origin.Origin {
	return []origin.Origin{{Kind: origin.Site, Role: origin.Value, Ref: ref, Range: at}}
}

func dropInDir(b schema.Body, in stages.Inputs) string {
	p := configTarget(b, in)
	return p[:strings.LastIndexByte(p, '/')]
}
