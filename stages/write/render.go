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
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// renderer is one rendering in progress.
type renderer struct {
	cfg   schema.Body
	in    stages.Inputs
	out   node.Contribution
	diags hcl.Diagnostics
	whole bool // false: something is unknown, so not every file could be rendered

	unreadConfig, unreadFlags bool // patch, flags: a recording does not tell them
}

// Render implements stages.Renderer.
func (Stage) Render(cfg schema.Body, n node.Node, in stages.Inputs) (node.Contribution, stages.Output, hcl.Diagnostics) {
	r := &renderer{cfg: cfg, in: in, whole: true}
	config, hasConfig := cfg.One("kubelet_config")
	fl, hasFlags := cfg.One("kubelet_flags")
	if hasConfig {
		r.patch(config)
	}
	if hasFlags {
		r.flags(fl)
	}
	toFlag := r.taintsInFlag(fl, hasFlags)
	if hasFlags && in.Unread.Kubelet && len(n.Taints) > 0 && !in.Base.TaintFlag && flagsTaints.Of(fl).V == "auto" {
		r.unreadFlags, r.unreadConfig = true, true // the kubelet's version would say where they go
	}
	switch {
	case !toFlag && hasConfig:
		r.registerWithTaints(n)
	case toFlag && hasConfig && configLayout.Of(config).V == "file" && in.Base.Config["registerWithTaints"] != nil:
		// The flag would win without a word, so the list stands there, and there only.
		r.out.Settings = append(r.out.Settings, node.Setting{Path: []string{"registerWithTaints"}, Delete: true, Origins: place(in.Address, fl.Range)})
	}
	if hasConfig && configLayout.Of(config).V == "drop-in" && hasFlags {
		r.out.Flags = append(r.out.Flags, node.Flag{Name: "config-dir", Value: dropInDir(config, in), Origins: place(r.in.Address, config.Range)})
	}
	merged, conflicts := in.Merge(r.out)
	if !r.diags.HasErrors() && !conflicts.HasErrors() {
		r.bootstrap()
		r.ca()
		if hasConfig {
			r.configFile(config, merged)
		}
		if hasFlags {
			r.flagsFile(fl, merged, toFlag)
		}
		r.files()
	}
	if r.in.Check {
		r.owners()
	}
	r.dropped(n, hasConfig, hasFlags)
	return r.out, r.output(), r.diags
}

func (r *renderer) output() stages.Output {
	var paths []cty.Value
	for _, f := range r.out.Files {
		paths = append(paths, cty.StringVal(f.Path))
	}
	l := cty.ListValEmpty(cty.String)
	switch {
	case !r.whole:
		l = cty.UnknownVal(cty.List(cty.String))
	case len(paths) > 0:
		l = cty.ListVal(paths)
	}
	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"files": l})}
}

// dropped minds labels and settings that have nowhere to go.
func (r *renderer) dropped(n node.Node, hasConfig, hasFlags bool) {
	if !hasFlags {
		for _, l := range n.Labels {
			r.diags = append(r.diags, origin.Error(fault.Conflict, r.cfg.Range, "Labels have nowhere to go", "Label %s needs --node-labels, but kubelet_flags is left out (when = false).", l.Key))
			break
		}
		if r.in.Node.Name != nil || r.in.Node.IP != nil {
			at, what := r.in.Node.NameRange, "name needs --hostname-override"
			if r.in.Node.Name == nil {
				at, what = r.in.Node.IPRange, "ip needs --node-ip"
			}
			r.diags = append(r.diags, origin.Error(fault.Conflict, at, "The node block has nowhere to go", "Its %s, but kubelet_flags is left out (when = false).", what))
		}
	}
	if !hasConfig && len(n.Settings) > 0 {
		r.diags = append(r.diags, origin.Error(fault.Conflict, r.cfg.Range, "Settings have nowhere to go", "%s is set by %s, but kubelet_config is left out (when = false).", strings.Join(n.Settings[0].Path, "."), n.Settings[0].Origins[0].Ref))
	}
	if !hasConfig && !hasFlags && len(n.Taints) > 0 {
		r.diags = append(r.diags, origin.Error(fault.Conflict, r.cfg.Range, "Taints have nowhere to go", "Taint %s: both kubelet_flags and kubelet_config are left out.", n.Taints[0]))
	}
}

func (r *renderer) patch(b schema.Body) {
	v := configPatch.Of(b)
	u, secrets, unread := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		r.fail(fault.Sensitive, v.Range, "A secret cannot be used in the kubelet's configuration", "Every pod that may read /configz sees it. Put it in a file of its own.")
		return
	case len(unread) > 0:
		r.unreadConfig = true
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
	r.out.Settings = append(r.out.Settings, settings...)
}

func (r *renderer) fail(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Error(c, at, summary, detail, args...))
}

// flags adds what the site writes in `flags`, and the node's name and address.
func (r *renderer) flags(b schema.Body) {
	if p := r.in.Node.Name; p != nil {
		r.out.Flags = append(r.out.Flags, node.Flag{Name: "hostname-override", Value: *p, Origins: place("node.name", r.in.Node.NameRange)})
	}
	if p := r.in.Node.IP; p != nil {
		r.out.Flags = append(r.out.Flags, node.Flag{Name: "node-ip", Value: *p, Origins: place("node.ip", r.in.Node.IPRange)})
	}
	v := flagsValues.Of(b)
	u, secrets, unread := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		r.fail(fault.Sensitive, v.Range, "A secret cannot be used in flags", "Everybody on the node reads the kubelet's command line.")
		return
	case len(unread) > 0:
		r.unreadFlags = true
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
			r.out.Flags = append(r.out.Flags, node.Flag{Name: name, Value: s.AsString(), Origins: v.ItemOrigins(name)})
		}
	}
}

// taintsInFlag says where taints go: one place only, since the flag wins over the configuration without a word.
func (r *renderer) taintsInFlag(b schema.Body, has bool) bool {
	if !has {
		return false
	}
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
func (r *renderer) registerWithTaints(n node.Node) {
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
		r.out.Settings = append(r.out.Settings, node.Setting{Path: []string{"registerWithTaints"}, Value: list, Origins: from})
	}
}

func place(ref string, at hcl.Range) []origin.Origin {
	return []origin.Origin{{Kind: origin.Site, Role: origin.Value, Ref: ref, Range: at}}
}

func dropInDir(b schema.Body, in stages.Inputs) string {
	p := configTarget(b, in)
	return p[:strings.LastIndexByte(p, '/')]
}

func configTarget(b schema.Body, in stages.Inputs) string {
	if p := configPath.Of(b); p.Set() {
		return p.V
	}
	l := layout(in)
	if configLayout.Of(b).V == "drop-in" {
		return l.ConfigDropIns + "/90-prelet.conf"
	}
	return l.ConfigFile
}

func (r *renderer) configFile(b schema.Body, n node.Node) {
	if u := r.in.Unread; !r.in.Base.ConfigKnown || r.undecided(b) || r.unreadConfig || u.Config || u.Taints {
		r.whole = false
		return
	}
	doc := kubelet.NewConfig()
	if configLayout.Of(b).V == "drop-in" {
		for _, s := range n.Settings {
			v, ok := dropInValue(s)
			if !ok {
				r.fail(fault.ConfigInvalid, s.At(b.Range), "A drop-in cannot take a field away", "%s: the kubelet merges drop-ins over config.yaml, and has no way to remove. Use layout = \"file\".", strings.Join(s.Path, "."))
				continue
			}
			if err := doc.Set(s.Path, v); err != nil {
				r.fail(fault.ConfigInvalid, b.Range, "The kubelet's configuration cannot be written", "%s.", err)
			}
		}
		// A kubelet that merges drop-ins first writes config.yaml out and reads it again, where an empty list is none, and none is the
		// default: cmd/kubelet/app, mergeKubeletConfigurations. No other list has one.
		if v, ok := n.Config["enforceNodeAllocatable"].([]any); ok && len(v) == 0 {
			_ = doc.Set([]string{"enforceNodeAllocatable"}, v) // as it was read
		}
	} else if err := doc.Merge(n.Config); err != nil {
		r.fail(fault.ConfigInvalid, b.Range, "The kubelet's configuration cannot be written", "%s.", err)
	}
	r.add(b, node.File{Path: configTarget(b, r.in), Kind: node.Regular, Text: plain(string(doc.Canonical())), Mode: 0o644, Purpose: "kubelet-config", Origins: place(r.in.Address, b.Range)})
}

// dropInValue is what says "none" where a drop-in cannot remove a field of config.yaml: no amount is zero, no CPUs
// are the empty list. Other fields have no such value.
func dropInValue(s node.Setting) (any, bool) {
	switch {
	case !s.Delete:
		return s.Value, true
	case len(s.Path) == 2 && (s.Path[0] == "kubeReserved" || s.Path[0] == "systemReserved"):
		return "0", true
	case len(s.Path) == 1 && s.Path[0] == "reservedSystemCPUs":
		return "", true
	}
	return nil, false
}

func (r *renderer) flagsFile(b schema.Body, n node.Node, toFlag bool) {
	if u := r.in.Unread; !r.in.Base.FlagsKnown || r.undecided(b) || r.unreadFlags || u.Flags || u.Labels || u.Taints {
		r.whole = false
		return
	}
	at := b.Range
	name := flagsVariable.Of(b).V
	read, _ := r.in.Base.FlagsFile.(flagsRead) // it is known, so Base has read it
	env, fl, ok := read.edit()
	set := func(flag, val string) {
		if err := fl.Set(flag, val); err != nil {
			r.fail(fault.FlagsInvalid, at, "--"+flag+" cannot be written", "%s.", err)
		}
	}
	for _, f := range n.Flags {
		if len(f.Origins) > 0 && f.Origins[0].Kind == origin.Base {
			continue
		}
		set(f.Name, f.Value)
	}
	if len(n.Labels) > 0 {
		m := map[string]string{}
		for _, l := range n.Labels {
			m[l.Key] = l.Value
		}
		old, _ := fl.Lookup(nodeLabels)
		set(nodeLabels, kubelet.MergeList(old, kubelet.LabelItems(m)))
	}
	if toFlag && len(n.Taints) > 0 {
		var ts []kubelet.Taint
		for _, t := range n.Taints {
			ts = append(ts, kubelet.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
		old, _ := fl.Lookup(taintFlag)
		set(taintFlag, kubelet.MergeTaints(old, ts))
	}
	if len(fl.Names()) > 0 || ok {
		if err := env.Set(name, &fl); err != nil {
			r.fail(fault.FlagsInvalid, at, "The kubelet's flags cannot be written", "%s.", err)
			return
		}
	}
	r.add(b, node.File{Path: flagsFile(b, r.in), Kind: node.Regular, Text: plain(env.String()), Mode: 0o644, Purpose: "kubelet-flags", Origins: place(r.in.Address, at)})
}

func plain(s string) value.Text {
	t, err := value.TextOf(cty.StringVal(s))
	if err != nil {
		panic("write: a text of the kubelet's formats with a placeholder: " + err.Error()) // inputs are refused with one
	}
	return t
}

func (r *renderer) add(b schema.Body, f node.File) {
	if b.Undecided {
		r.whole = false
		return
	}
	r.out.Files = append(r.out.Files, f)
}

// undecided says whether a block is to be left alone. In a check what it says is looked at all the same, and nothing
// comes of it.
func (r *renderer) undecided(b schema.Body) bool { return b.Undecided && !r.in.Check }
