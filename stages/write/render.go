package write

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// renderer is one rendering in progress.
type renderer struct {
	cfg   schema.Body
	in    stages.Inputs
	added additions
	out   []node.File
	diags hcl.Diagnostics
	whole bool // false: something is unknown, so not every file could be rendered
}

// Render implements stages.Renderer. Files are rendered only if what the stage added fits the node.
func (Stage) Render(cfg schema.Body, n node.Node, in stages.Inputs) (stages.Rendering, stages.Output, hcl.Diagnostics) {
	added := readAdditions(cfg, n, in)
	r := &renderer{cfg: cfg, in: in, added: added, whole: added.whole}
	if !in.Refused {
		r.kubeletFiles(n)
		r.files()
	}
	if r.in.Check {
		r.owners()
	}
	r.dropped(n)

	return stages.Rendering{Files: r.out}, r.output(), r.diags
}

// kubeletFiles renders the files of the four blocks of the kubelet.
func (r *renderer) kubeletFiles(n node.Node) {
	r.bootstrap()
	r.ca()
	if b, ok := r.cfg.One("kubelet_config"); ok {
		r.configFile(b, n)
	}
	if b, ok := r.cfg.One("kubelet_flags"); ok {
		r.flagsFile(b, n)
	}
}

func (r *renderer) output() stages.Output {
	var paths []cty.Value
	for _, f := range r.out {
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
func (r *renderer) dropped(n node.Node) {
	_, hasConfig := r.cfg.One("kubelet_config")
	_, hasFlags := r.cfg.One("kubelet_flags")
	if !hasFlags {
		if i := slices.IndexFunc(n.Labels, func(l node.Label) bool { return !l.Inherited }); i >= 0 {
			r.diags = append(r.diags, origin.Error(fault.Conflict, r.cfg.Range, "Labels have nowhere to go", "Label %s needs --node-labels, but kubelet_flags is left out (when = false).", n.Labels[i].Key))
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
	isInherited := r.in.Base.TaintFlag && !slices.ContainsFunc(n.Taints, func(t node.Taint) bool { return !t.Inherited })
	if !hasConfig && !r.added.TaintFlag && len(n.Taints) > 0 && !isInherited {
		r.diags = append(r.diags, origin.Error(fault.Conflict, r.cfg.Range, "Taints have nowhere to go", "Taint %s needs registerWithTaints, but kubelet_config is left out (when = false).", n.Taints[0]))
	}
}

func (r *renderer) fail(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	r.diags = append(r.diags, origin.Error(c, at, summary, detail, args...))
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

// checkThresholds warns where the kubelet has no threshold to evict for, and notes those that are switched off.
func (r *renderer) checkThresholds(b schema.Body, n node.Node) {
	version, at, instead := "", b.Range, "Write evictionHard = null in patch for the defaults."
	if v := r.in.Kubelet.Version; v != nil {
		version = *v
	}

	_, isSet := n.Config["evictionHard"].(map[string]any)
	isSet = isSet && !kubelet.MergesEvictionHard(n.Config, version)
	thresholds := stages.Amounts(n.Config, "evictionHard")
	if i := slices.IndexFunc(n.Flags, func(f node.Flag) bool { return f.Name == "eviction-hard" }); i >= 0 {
		isSet, instead, thresholds = true, "Without the flag --eviction-hard it has those of the configuration.", map[string]string{}
		for _, t := range strings.Split(n.Flags[i].Value, ",") {
			if signal, threshold, ok := strings.Cut(t, "<"); ok {
				thresholds[signal] = threshold
			}
		}
	}
	if isSet && len(thresholds) == 0 {
		r.diags = append(r.diags, origin.Warning(fault.ConfigInvalid, at, "No threshold is left in evictionHard",
			"It is there and empty, so the kubelet takes none of its defaults and never evicts a pod. %s", instead))
	}

	maps.DeleteFunc(thresholds, func(_, t string) bool { return t != "0%" && t != "100%" })
	if off := slices.Sorted(maps.Keys(thresholds)); len(off) > 0 {
		r.diags = append(r.diags, origin.Note(fault.ConfigInvalid, at, "Thresholds of evictionHard are off: "+strings.Join(off, ", "),
			"The kubelet takes 0%% and 100%% for no threshold, and evicts no pod for it."))
	}
}

func (r *renderer) configFile(b schema.Body, n node.Node) {
	if u := r.in.Unread; !r.in.Base.ConfigKnown || r.undecided(b) || r.added.isConfigUnread || u.Config || u.Taints {
		r.whole = false
		return
	}
	r.checkThresholds(b, n)
	r.warnPlace(b, n)
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
	r.add(b, node.File{Path: configTarget(b, r.in), Kind: node.Regular, Text: value.PlainText(string(doc.Canonical())), Mode: 0o644, Purpose: "kubelet-config", Origins: place(r.in.Address, b.Range)})
}

// warnPlace warns of a configuration at another place than the one that the kubelet's unit names.
func (r *renderer) warnPlace(b schema.Body, n node.Node) {
	file, at := r.in.Base.Inherited.ConfigFile, configTarget(b, r.in)
	isSet := slices.ContainsFunc(n.Flags, func(f node.Flag) bool { return f.Name == "config" })
	if file == "" || file == at || isSet || configLayout.Of(b).V == "drop-in" {
		return
	}

	r.diags = append(r.diags, origin.Warning(fault.Conflict, b.Range, "The kubelet reads another configuration",
		"Its unit says --config=%s, and this stage writes %s, which that kubelet does not read: nothing of it takes effect. "+
			"Write path = %q here, or change the unit.", file, at, file))
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

func (r *renderer) flagsFile(b schema.Body, n node.Node) {
	if u := r.in.Unread; !r.in.Base.FlagsKnown || r.undecided(b) || r.added.areFlagsUnread || u.Flags || u.Labels || u.Taints {
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
		set(f.Name, f.Written())
	}
	m := map[string]string{}
	for _, l := range n.Labels {
		if !l.Inherited {
			m[l.Key] = l.Value
		}
	}
	if len(m) > 0 {
		old, _ := fl.Lookup(nodeLabels)
		set(nodeLabels, kubelet.MergeList(old, kubelet.LabelItems(m)))
	}
	isOwn := func(t node.Taint) bool { return !t.Inherited }
	if r.added.TaintFlag && slices.ContainsFunc(n.Taints, isOwn) { // the flag replaces an inherited one
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
	r.add(b, node.File{Path: flagsFile(b, r.in), Kind: node.Regular, Text: value.PlainText(env.String()), Mode: 0o644, Purpose: "kubelet-flags", Origins: place(r.in.Address, at)})
}

func (r *renderer) add(b schema.Body, f node.File) {
	if b.Undecided {
		r.whole = false
		return
	}
	r.out = append(r.out, f)
}

// undecided says whether a block is to be left alone. In a check what it says is looked at all the same, and nothing
// comes of it.
func (r *renderer) undecided(b schema.Body) bool { return b.Undecided && !r.in.Check }
