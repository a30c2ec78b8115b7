package write

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// additions are the flags and settings that the stage adds to the node, and the place of the node's taints.
type additions struct {
	desired.Contribution
	origin.Collector
	whole bool // false: a part of it is not known yet
}

// Add implements stages.Adder. It adds the patch of the configuration, the flags, and the node's taints if they are
// in the configuration.
func (Stage) Add(
	cfg schema.Body, n desired.Node, in stages.Inputs,
) (desired.Contribution, hcl.Diagnostics) {
	a := computeAdditions(cfg, n, in)

	return a.Contribution, a.Diags
}

// computeAdditions returns the additions. They depend on the configuration and on the node's taints only. The stage
// adds no taints, so Render, which sees the merged node, gets the same result.
func computeAdditions(cfg schema.Body, n desired.Node, in stages.Inputs) additions {
	a := &adder{in: in, additions: additions{whole: true}}
	config, hasConfig := cfg.One("kubelet_config")
	flags, hasFlags := cfg.One("kubelet_flags")
	a.Inherited = collectFromFiles(cfg, in)
	if hasConfig {
		a.addPatch(config)
	}
	if hasFlags {
		a.addNodeFlags()
		a.addFlags(flags)
		a.TaintFlag = a.chooseTaintPlace(flags, hasConfig)
	} else {
		a.refuseTaints(cfg, n)
	}
	if hasConfig {
		a.addTaintSettings(config, flags, n)
	}
	a.warnAssumedTaints(cfg, n)
	if !hasConfig {
		return a.additions
	}

	if isDropIn(config) {
		a.DropIn = configTarget(config, in)
	}
	if isDropIn(config) && hasFlags {
		from := place(in.Address, config.Range)
		a.appendFlag("config-dir", path.Dir(a.DropIn), from)
	}
	a.addResolver(config, n)

	return a.additions
}

type adder struct {
	in stages.Inputs
	additions
}

func (a *adder) appendFlag(name, text string, from []origin.Origin) {
	a.Flags = append(a.Flags, desired.Flag{
		Name:    name,
		Value:   text,
		Origins: from,
	})
}

// addResolver adds the resolvConf that kubeadm would write, if it is not set; "" and null are set.
func (a *adder) addResolver(config schema.Body, n desired.Node) {
	if !a.in.Base.ConfigKnown || !a.whole || a.isResolverSet(n) {
		return
	}
	file := a.in.Kubelet.Resolver
	if file == "" {
		return
	}

	a.Settings = append(a.Settings, desired.Setting{
		Path:  []string{"resolvConf"},
		Value: file,
		Origins: []origin.Origin{{
			Kind:  origin.Default,
			Role:  origin.Value,
			Ref:   "as kubeadm",
			Range: config.Range,
			Text:  "systemd-resolved was active when this node joined",
		}},
	})
}

// isResolverSet reports whether the base, a setting, a flag or a drop-in of the image sets resolvConf.
func (a *adder) isResolverSet(n desired.Node) bool {
	_, isInBase := a.in.Base.Config["resolvConf"]
	isResolver := func(s desired.Setting) bool {
		return s.Path[0] == "resolvConf"
	}
	n.Flags = slices.Concat(a.Flags, n.Flags)
	_, isFlag := desired.FindFlag(n.Flags, "resolv-conf")
	if isInBase || isFlag || slices.ContainsFunc(slices.Concat(a.Settings, n.Settings), isResolver) {
		return true
	}

	folder := n.FindPath("config-dir")
	if folder == "" || a.in.DropIns == nil {
		return false
	}

	setsResolvConf := func(d stages.DropIn) bool {
		return d.Config["resolvConf"] != nil
	}
	return slices.ContainsFunc(a.in.DropIns(folder), setsResolvConf)
}

// addPatch adds a setting for each field of the patch. A patch that is not known adds nothing.
func (a *adder) addPatch(b schema.Body) {
	v := configPatch.Of(b)
	if !v.Cty.IsWhollyKnown() {
		a.whole = false
		return
	}

	g, _ := codec.ToGo(v.Cty) // cannot fail: it is known, and has no secrets
	m, _ := g.(map[string]any)
	settings := desired.Leaves(m, func(path []string) []origin.Origin {
		return v.ItemOrigins(path[0])
	})
	for _, s := range settings {
		if s.Delete && isDropIn(b) {
			null := strings.Join(s.Path, ".") + " = null"
			a.Report(refuseDelete(v.ItemRange(s.Path[0]), null))
		}
	}
	a.Settings = append(a.Settings, settings...)
}

// addNodeFlags adds the flags for the node's name and address.
func (a *adder) addNodeFlags() {
	if p := a.in.Node.Name; p != nil {
		from := place("node.name", a.in.Node.NameRange)
		a.appendFlag("hostname-override", *p, from)
	}
	if p := a.in.Node.IP; p != nil {
		from := place("node.ip", a.in.Node.IPRange)
		a.appendFlag("node-ip", *p, from)
	}
}

// addFlags adds the site's `flags`, sorted by name. Unknown flags add nothing.
func (a *adder) addFlags(b schema.Body) {
	flags := flagsValues.Of(b)
	a.whole = a.whole && flags.Cty.IsWhollyKnown()
	spelled := map[string]string{} // how the site spells each flag
	for written, item := range flags.Items() {
		name := kubelet.FlagName(written)
		first, isSet := spelled[name]
		spelled[name] = written

		switch {
		case isSet:
			a.Error(
				fault.Conflict, item.Range, "Duplicate flag --"+name,
				"%q and %q are the same flag: the kubelet reads _ as -. Keep one of them.", first, written,
			)
		case strings.HasPrefix(written, "-"), strings.HasPrefix(written, "_"):
			a.Error(
				fault.FlagsInvalid, item.Range, "A flag's name has no dashes",
				"Write %q.", strings.TrimLeft(name, "-"),
			)
		default:
			a.addFlag(name, item)
		}
	}
}

// addFlag adds one flag by its canonical name. A null adds none, and keeps the flag of the base.
func (a *adder) addFlag(name string, item schema.Value[string]) {
	switch {
	case name == nodeLabels || name == taintFlag:
		a.Error(fault.Conflict, item.Range, "--"+name+" is generated from stages and cannot be set here",
			"Write a label as stage \"label\" \"NAME\" { labels = { \"KEY\" = \"VALUE\" } }, "+
				"a taint as stage \"taint\" \"NAME\" { taints = [\"KEY=VALUE:EFFECT\"] }.")
	case item.Null():
		a.Report(a.noteNoFlag(name, item.Range))
	case item.Set():
		if err := kubelet.CheckFlag(name, item.V); err != nil {
			a.Error(fault.FlagsInvalid, item.Range, "--"+name+" cannot be written", "%s.", err)
			return
		}
		a.appendFlag(name, item.V, item.Origins())
	}
}

func (a *adder) noteNoFlag(name string, at hcl.Range) *hcl.Diagnostic {
	if _, ok := desired.FindFlag(a.in.Base.Flags, name); ok {
		return origin.Note(
			fault.NullFact, at, "Flag --"+name+" keeps the value of the base",
			"Its value here is null, and null removes nothing.",
		)
	}

	return origin.Note(fault.NullFact, at, "No flag --"+name, "Its value is null on this machine.")
}

// chooseTaintPlace reports whether taints are written to the flag and not to the configuration: the flag silently
// overrides the configuration, so taints are in one place only.
//
// "auto" depends on the kubelet's version: registerWithTaints came with 1.23, an older kubelet silently ignores it,
// and a node without its taint takes pods. A site that is planned where the version is not known can set the place.
func (a *adder) chooseTaintPlace(b schema.Body, hasConfig bool) (inFlag bool) {
	v := flagsTaints.Of(b)
	switch v.V {
	case "flag":
		return true
	case "config":
		if a.in.Base.TaintFlag {
			a.Error(fault.Conflict, v.Range, "The base has --register-with-taints",
				"It would silently override registerWithTaints. Write taints = \"flag\", or remove it from %s.",
				a.nameTaintFlag())
		}
		return false
	}

	// registerWithTaints came with 1.23 (kubernetes/kubernetes CHANGELOG-1.23).
	minor, isKnown := known.Minor(a.in.Kubelet.KnownVersion())

	return a.in.Base.TaintFlag || !hasConfig || isKnown && minor < 23
}

// nameTaintFlag returns where the base has --register-with-taints, for a message.
func (a *adder) nameTaintFlag() string {
	for _, t := range a.in.Base.Taints {
		if t.Inherited {
			return t.Origins[0].Ref
		}
	}

	return "the base"
}

// refuseTaints refuses taints of a site that leaves its flags out: an inherited --register-with-taints would
// silently override registerWithTaints.
func (a *adder) refuseTaints(cfg schema.Body, n desired.Node) {
	i := slices.IndexFunc(n.Taints, isOwnTaint)
	if !a.in.Base.TaintFlag || i < 0 {
		return
	}
	at := cfg.Range
	from := n.Taints[i].Origins
	if len(from) > 0 && from[0].Range.Filename != "" {
		at = from[0].Range
	}
	a.Error(fault.Conflict, at, "Taint "+n.Taints[i].String()+" has no effect here",
		"--register-with-taints of %s silently overrides registerWithTaints, "+
			"and kubelet_flags is left out (when = false). Let prelet write the flags, "+
			"or remove that flag.", a.nameTaintFlag())
}

// warnAssumedTaints warns of --register-with-taints of an unknown unit: if the kubelet gets it, taints in the
// configuration have no effect.
func (a *adder) warnAssumedTaints(cfg schema.Body, n desired.Node) {
	assumed := a.in.Base.Inherited.Taints
	if len(assumed) == 0 || len(n.Taints) == 0 || a.TaintFlag {
		return
	}
	a.Warn(
		fault.Conflict, cfg.Range, "The taints may have no effect",
		"%s has --register-with-taints, and it is not known whether the kubelet gets that flag. If it does, "+
			"the flag silently overrides registerWithTaints. Remove it, or write taints = \"flag\" in "+
			"kubelet_flags.",
		strings.Replace(assumed[0].Origins[0].Ref, "the ", "The ", 1),
	)
}

// addTaintSettings adds the taints to the configuration, or removes those of the base if the flag has the taints.
func (a *adder) addTaintSettings(config, flags schema.Body, n desired.Node) {
	field := []string{"registerWithTaints"}
	isPatched := func(s desired.Setting) bool {
		return s.Path[0] == field[0] && !s.Delete
	}
	switch i := slices.IndexFunc(a.Settings, isPatched); {
	case (a.TaintFlag || a.in.Base.TaintFlag) && i >= 0:
		a.Error(fault.Conflict, a.Settings[i].FindRange(config.Range), "registerWithTaints has no effect here",
			"The taints are in --register-with-taints, which silently overrides it. "+
				"Write a stage \"taint\", or taints = \"config\" in kubelet_flags.")
	case a.in.Base.TaintFlag && !a.TaintFlag: // inherited, and the site has no taints
	case !a.TaintFlag:
		a.registerWithTaints(n)
	case !isDropIn(config) && a.in.Base.Config["registerWithTaints"] != nil:
		from := place(a.in.Address, flags.Range)
		a.Settings = append(a.Settings, desired.Setting{
			Path:    field,
			Delete:  true,
			Origins: from,
		})
	}
}

// registerWithTaints adds the node's taints to the configuration, unless the base has the same set.
func (a *adder) registerWithTaints(n desired.Node) {
	if len(n.Taints) == 0 {
		return
	}

	var list []any
	var from []origin.Origin
	isSame := len(n.Taints) == len(a.in.Base.Taints)
	for _, t := range n.Taints {
		m := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			m["value"] = t.Value
		}
		list = append(list, m)
		from = append(from, t.Origins...)
		isInBase := func(b desired.Taint) bool {
			return b.String() == t.String()
		}
		isSame = isSame && slices.ContainsFunc(a.in.Base.Taints, isInBase)
	}
	if !isSame {
		a.Settings = append(a.Settings, desired.Setting{
			Path:    []string{"registerWithTaints"},
			Value:   list,
			Origins: from,
		})
	}
}

func place(ref string, at hcl.Range) []origin.Origin {
	return []origin.Origin{{
		Kind:  origin.Site,
		Role:  origin.Value,
		Ref:   ref,
		Range: at,
	}}
}
