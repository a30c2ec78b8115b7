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
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// additions are the flags and settings that the stage adds to the node, and where the node's taints go.
type additions struct {
	node.Contribution
	diags hcl.Diagnostics
	whole bool // false: some of it is not known yet

	isConfigUnread, areFlagsUnread bool // a recording does not have them
}

// Add implements stages.Adder: the patch of the configuration, the flags, and the node's taints where the configuration
// has them.
func (Stage) Add(cfg schema.Body, n node.Node, in stages.Inputs) (node.Contribution, hcl.Diagnostics) {
	a := readAdditions(cfg, n, in)

	return a.Contribution, a.diags
}

// readAdditions is a function of the configuration and of the node's taints. The stage adds no taints, so Render, which
// sees the merged node, gets the same result.
func readAdditions(cfg schema.Body, n node.Node, in stages.Inputs) additions {
	a := &adder{in: in, additions: additions{whole: true}}
	config, hasConfig := cfg.One("kubelet_config")
	flags, hasFlags := cfg.One("kubelet_flags")
	a.Inherited = inheritFromFiles(cfg, in)
	if hasConfig {
		a.addPatch(config)
	}
	if hasFlags {
		a.addNodeFlags()
		a.addFlags(flags)
		a.TaintFlag = a.chooseTaintPlace(flags, hasConfig)
	}
	if hasFlags && in.Unread.Kubelet && len(n.Taints) > 0 && !in.Base.TaintFlag && flagsTaints.Of(flags).V == "auto" {
		a.areFlagsUnread, a.isConfigUnread = true, true // it depends on the kubelet's version where they go
	}
	if !hasFlags {
		a.refuseTaints(cfg, n)
	}
	if hasConfig {
		a.addTaintSettings(config, flags, n)
	}
	a.warnAssumedTaints(cfg, n)
	if hasConfig && configLayout.Of(config).V == "drop-in" {
		a.DropIn = configTarget(config, in)
	}
	if hasConfig && hasFlags && configLayout.Of(config).V == "drop-in" {
		a.Flags = append(a.Flags, node.Flag{
			Name: "config-dir", Value: dropInDir(config, in), Origins: place(in.Address, config.Range),
		})
	}

	if hasConfig {
		a.addResolver(config, n)
	}

	return a.additions
}

// adder collects the additions.
type adder struct {
	in stages.Inputs
	additions
}

func (a *adder) fail(c fault.Code, at hcl.Range, summary, detail string, args ...any) {
	a.diags = append(a.diags, origin.Error(c, at, summary, detail, args...))
}

// addResolver adds the resolvConf that kubeadm would write, where nobody sets one; "" and null are set.
func (a *adder) addResolver(config schema.Body, n node.Node) {
	file := a.in.Kubelet.Resolver
	_, isInBase := a.in.Base.Config["resolvConf"]
	isSetting := func(s node.Setting) bool { return s.Path[0] == "resolvConf" }
	isFlag := func(f node.Flag) bool { return f.Name == "resolv-conf" }
	dir := ""
	for _, f := range slices.Concat(n.Flags, a.Flags) {
		if f.Name == "config-dir" {
			dir = f.Value
		}
	}
	if dir != "" && a.in.DropIns != nil && slices.ContainsFunc(a.in.DropIns(dir), func(c map[string]any) bool { return c["resolvConf"] != nil }) {
		return // the image sets it
	}
	if !a.in.Base.ConfigKnown || isInBase || !a.whole || slices.ContainsFunc(a.Settings, isSetting) ||
		slices.ContainsFunc(n.Settings, isSetting) ||
		slices.ContainsFunc(slices.Concat(n.Flags, a.Flags), isFlag) {
		return
	}
	if file == "" {
		a.isConfigUnread = a.isConfigUnread || a.in.Unread.Kubelet
		return
	}

	a.Settings = append(a.Settings, node.Setting{
		Path: []string{"resolvConf"}, Value: file,
		Origins: []origin.Origin{{
			Kind: origin.Default, Role: origin.Value, Ref: "as kubeadm", Range: config.Range,
			Text: "systemd-resolved was active when this node joined",
		}},
	})
}

// addPatch adds a setting for each field of the patch. A secret is refused; a patch that is not known adds nothing.
func (a *adder) addPatch(b schema.Body) {
	v := configPatch.Of(b)
	u, secrets, unread := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		a.fail(fault.Sensitive, v.Range, "A secret cannot be used in the kubelet's configuration",
			"Every pod that may read /configz sees it. Put it in a file of its own.")
		return
	case len(unread) > 0:
		a.isConfigUnread = true
		a.diags = append(a.diags, origin.NotRead(v.Range, "patch", unread))
		return
	case u.IsKnown() && u.IsNull():
		return
	case !u.IsWhollyKnown():
		a.whole = false
		return
	}

	g, err := value.ToGo(u)
	m, ok := g.(map[string]any)
	if err != nil || !ok {
		a.fail(fault.WrongType, v.Range, "Wrong type for patch", "An object with fields of KubeletConfiguration is needed.")
		return
	}
	settings := node.Leaves(m, func(path []string) []origin.Origin { return v.ItemOrigins(path[0]) })
	for _, s := range settings {
		if s.Delete && configLayout.Of(b).V == "drop-in" {
			a.fail(fault.ConfigInvalid, v.ItemRange(s.Path[0]), "A drop-in cannot take a field away",
				"%s = null: the kubelet merges drop-ins over config.yaml, and has no way to remove. "+
					"Set another value, or use layout = \"file\".", strings.Join(s.Path, "."))
		}
	}
	a.Settings = append(a.Settings, settings...)
}

// addNodeFlags adds the flags for the node's name and address.
func (a *adder) addNodeFlags() {
	if p := a.in.Node.Name; p != nil {
		from := place("node.name", a.in.Node.NameRange)
		a.Flags = append(a.Flags, node.Flag{Name: "hostname-override", Value: *p, Origins: from})
	}
	if p := a.in.Node.IP; p != nil {
		from := place("node.ip", a.in.Node.IPRange)
		a.Flags = append(a.Flags, node.Flag{Name: "node-ip", Value: *p, Origins: from})
	}
}

// addFlags adds what the site writes in `flags`, sorted by name. Flags that are not known add nothing.
func (a *adder) addFlags(b schema.Body) {
	v := flagsValues.Of(b)
	u, secrets, unread := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		a.fail(fault.Sensitive, v.Range, "A secret cannot be used in flags",
			"Everybody on the node reads the kubelet's command line.")
	case len(unread) > 0:
		a.areFlagsUnread = true
		a.diags = append(a.diags, origin.NotRead(v.Range, "flags", unread))
	case u.IsKnown() && u.IsNull():
	case !u.IsKnown():
		a.whole = false
	case !u.Type().IsObjectType() && !u.Type().IsMapType():
		a.fail(fault.WrongType, v.Range, "Wrong type for flags", "A map of names to values is needed.")
	default:
		flags := u.AsValueMap()
		spelled := map[string]string{} // how the site spells each flag
		for _, written := range slices.Sorted(maps.Keys(flags)) {
			at := v.ItemRange(written)
			name := kubelet.FlagName(written)

			first, isSet := spelled[name]
			spelled[name] = written

			switch {
			case isSet:
				a.fail(fault.Conflict, at, "--"+name+" is set twice",
					"%q and %q are the same flag: the kubelet takes _ for -. Keep one of them.", first, written)
			case strings.HasPrefix(written, "-"), strings.HasPrefix(written, "_"):
				a.fail(fault.FlagsInvalid, at, "A flag's name has no dashes", "Write %q.", strings.TrimLeft(name, "-"))
			default:
				a.addFlag(name, flags[written], at, v.ItemOrigins(written))
			}
		}
	}
}

// addFlag adds one flag by its canonical name; with a value of null it adds none, and leaves that of the base.
func (a *adder) addFlag(name string, v cty.Value, at hcl.Range, from []origin.Origin) {
	switch {
	case name == nodeLabels || name == taintFlag:
		a.fail(fault.Conflict, at, "--"+name+" is generated from stages and cannot be set here",
			"Write a label as stage \"label\" \"NAME\" { labels = { \"KEY\" = \"VALUE\" } }, "+
				"a taint as stage \"taint\" \"NAME\" { taints = [\"KEY=VALUE:EFFECT\"] }.")
	case !v.IsKnown():
		a.whole = false
	case v.IsNull():
		a.diags = append(a.diags, a.noteNoFlag(name, at))
	default:
		s, err := convert.Convert(v, cty.String)
		if err != nil {
			a.fail(fault.WrongType, at, "Wrong value for --"+name, "%s.", err)
			return
		}
		a.Flags = append(a.Flags, node.Flag{Name: name, Value: s.AsString(), Origins: from})
	}
}

func (a *adder) noteNoFlag(name string, at hcl.Range) *hcl.Diagnostic {
	if slices.ContainsFunc(a.in.Base.Flags, func(f node.Flag) bool { return f.Name == name }) {
		return origin.Note(fault.NullFact, at, "Flag --"+name+" stays as the base has it",
			"Its value here is null, and that takes nothing away.")
	}

	return origin.Note(fault.NullFact, at, "No flag --"+name, "Its value is null on this machine.")
}

// chooseTaintPlace reports whether taints go to the flag and not to the configuration: the flag wins silently over the
// configuration, so taints are in one place only.
func (a *adder) chooseTaintPlace(b schema.Body, hasConfig bool) (inFlag bool) {
	v := flagsTaints.Of(b)
	switch v.V {
	case "flag":
		return true
	case "config":
		if a.in.Base.TaintFlag {
			a.fail(fault.Conflict, v.Range, "The base has --register-with-taints",
				"It would win over registerWithTaints without a word. "+
					"Write taints = \"flag\", or take it out of %s.", a.nameTaintFlag())
		}
		return false
	}

	return a.in.Base.TaintFlag || !hasConfig || a.in.Kubelet.Version != nil && tooOldForConfigTaints(*a.in.Kubelet.Version)
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

// refuseTaints refuses taints of a site that leaves its flags out: an inherited --register-with-taints would win over
// registerWithTaints without a word.
func (a *adder) refuseTaints(cfg schema.Body, n node.Node) {
	i := slices.IndexFunc(n.Taints, func(t node.Taint) bool { return !t.Inherited })
	if !a.in.Base.TaintFlag || i < 0 {
		return
	}
	at := cfg.Range
	if from := n.Taints[i].Origins; len(from) > 0 && from[0].Range.Filename != "" {
		at = from[0].Range
	}
	a.fail(fault.Conflict, at, "Taint "+n.Taints[i].String()+" has no effect here",
		"--register-with-taints of %s wins over registerWithTaints without a word, and kubelet_flags is left out (when = "+
			"false). Let prelet write the flags, or take that flag out.", a.nameTaintFlag())
}

// warnAssumedTaints warns of --register-with-taints of a unit that nobody knows: where the kubelet gets it, taints in the
// configuration have no effect.
func (a *adder) warnAssumedTaints(cfg schema.Body, n node.Node) {
	assumed := a.in.Base.Inherited.Taints
	if len(assumed) == 0 || len(n.Taints) == 0 || a.TaintFlag {
		return
	}
	a.diags = append(a.diags, origin.Warning(fault.Conflict, cfg.Range, "The taints may have no effect",
		"%s has --register-with-taints, and whether the kubelet gets that flag is not known. If it does, it wins over "+
			"registerWithTaints without a word. Take it out, or write taints = \"flag\" in kubelet_flags.",
		strings.Replace(assumed[0].Origins[0].Ref, "the ", "The ", 1)))
}

// tooOldForConfigTaints: registerWithTaints came with 1.23 (kubernetes/kubernetes CHANGELOG-1.23).
func tooOldForConfigTaints(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor)

	return n == 2 && major == 1 && minor < 23
}

// addTaintSettings puts the taints in the configuration, or takes those of the base away where the flag has the taints.
func (a *adder) addTaintSettings(config, flags schema.Body, n node.Node) {
	path := []string{"registerWithTaints"}
	isPatched := func(s node.Setting) bool { return s.Path[0] == path[0] && !s.Delete }
	switch i := slices.IndexFunc(a.Settings, isPatched); {
	case (a.TaintFlag || a.in.Base.TaintFlag) && i >= 0:
		a.fail(fault.Conflict, a.Settings[i].At(config.Range), "registerWithTaints has no effect here",
			"The taints are in --register-with-taints, which the kubelet prefers without a word. "+
				"Write a stage \"taint\", or taints = \"config\" in kubelet_flags.")
	case a.in.Base.TaintFlag && !a.TaintFlag: // inherited, and of the site there are none
	case !a.TaintFlag:
		a.registerWithTaints(n)
	case configLayout.Of(config).V == "file" && a.in.Base.Config["registerWithTaints"] != nil:
		from := place(a.in.Address, flags.Range)
		a.Settings = append(a.Settings, node.Setting{Path: path, Delete: true, Origins: from})
	}
}

// registerWithTaints puts the node's taints in the configuration, unless the base has the same set.
func (a *adder) registerWithTaints(n node.Node) {
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
		isInBase := func(b node.Taint) bool { return b.String() == t.String() }
		isSame = isSame && slices.ContainsFunc(a.in.Base.Taints, isInBase)
	}
	if !isSame {
		a.Settings = append(a.Settings, node.Setting{Path: []string{"registerWithTaints"}, Value: list, Origins: from})
	}
}

func place(ref string, at hcl.Range) []origin.Origin {
	return []origin.Origin{{Kind: origin.Site, Role: origin.Value, Ref: ref, Range: at}}
}

func dropInDir(b schema.Body, in stages.Inputs) string {
	p := configTarget(b, in)

	return p[:strings.LastIndexByte(p, '/')]
}
