package write

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

type renderer struct {
	cfg   schema.Body
	in    stages.Inputs
	node  desired.Node
	added additions
	out   []desired.File
	whole bool // false: a value is unknown, so not every file could be rendered
	origin.Collector
}

// Render implements stages.Renderer. Files are rendered only if the additions of the stage fit the node.
func (Stage) Render(
	cfg schema.Body, n desired.Node, in stages.Inputs,
) (stages.Rendering, stages.Output, hcl.Diagnostics) {
	added := computeAdditions(cfg, n, in)
	r := &renderer{
		cfg:   cfg,
		in:    in,
		node:  n,
		added: added,
		whole: added.whole,
	}
	if !in.Refused {
		r.renderKubeletFiles(n)
		r.renderSiteFiles()
	}
	r.checkSystemPaths()
	if r.in.Check {
		r.checkPaths()
	}
	r.checkAllWritten(n)

	return stages.Rendering{Files: r.out}, r.makeOutput(), r.Diags
}

// renderKubeletFiles renders the files of the kubelet's blocks.
func (r *renderer) renderKubeletFiles(n desired.Node) {
	if b, ok := r.cfg.One("bootstrap_kubeconfig"); ok {
		if r.in.Kubelet.Joined {
			r.renderKubeconfig(b)
		} else {
			r.renderBootstrap(b)
		}
	}
	if b, ok := r.cfg.One("ca_certificate"); ok {
		r.renderCA(b)
	}
	if b, ok := r.cfg.One("kubelet_config"); ok {
		r.renderConfig(b, n)
		r.noteUpgrade(b, n)
	}
	if b, ok := r.cfg.One("kubelet_flags"); ok {
		r.renderFlags(b, n)
	}
}

func (r *renderer) makeOutput() stages.Output {
	var paths []string
	for _, f := range r.out {
		paths = append(paths, f.Path)
	}
	files := value.StringList(paths)
	if !r.whole {
		files = cty.UnknownVal(files.Type())
	}

	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"files": files})}
}

// checkAllWritten refuses labels, taints, settings and the node block if the block that would write them is left
// out.
func (r *renderer) checkAllWritten(n desired.Node) {
	_, hasConfig := r.cfg.One("kubelet_config")
	_, hasFlags := r.cfg.One("kubelet_flags")
	ownLabel := slices.IndexFunc(n.Labels, func(l desired.Label) bool {
		return !l.Inherited
	})
	if !hasFlags && ownLabel >= 0 {
		need := "Label " + n.Labels[ownLabel].Key + " needs --node-labels"
		r.refuseNotWritten(r.cfg.Range, "Labels", need, "kubelet_flags")
	}
	switch {
	case hasFlags:
	case r.in.Node.Name != nil:
		r.refuseNotWritten(r.in.Node.NameRange, "The node block", "Its name needs --hostname-override", "kubelet_flags")
	case r.in.Node.IP != nil:
		r.refuseNotWritten(r.in.Node.IPRange, "The node block", "Its ip needs --node-ip", "kubelet_flags")
	}

	if !hasConfig && len(n.Settings) > 0 {
		s := n.Settings[0]
		what := strings.Join(s.Path, ".") + " is set by " + s.Origins[0].Ref
		r.refuseNotWritten(r.cfg.Range, "Settings", what, "kubelet_config")
	}
	isInherited := r.in.Base.TaintFlag && !slices.ContainsFunc(n.Taints, isOwnTaint)
	if !hasConfig && !r.added.TaintFlag && len(n.Taints) > 0 && !isInherited {
		what := "Taint " + n.Taints[0].String() + " needs registerWithTaints"
		r.refuseNotWritten(r.cfg.Range, "Taints", what, "kubelet_config")
	}
}

func (r *renderer) refuseNotWritten(at hcl.Range, items, what, block string) {
	r.Error(
		fault.Conflict, at, items+" cannot be written",
		"%s, but %s is left out (when = false).", what, block,
	)
}

func isOwnTaint(t desired.Taint) bool {
	return !t.Inherited
}

func configTarget(b schema.Body, in stages.Inputs) string {
	if p := configPath.Of(b); p.Set() {
		return p.V
	}
	l := chooseLayout(in)
	if isDropIn(b) {
		return l.ConfigDropIns + "/90-prelet.conf"
	}

	return l.ConfigFile
}

func isDropIn(config schema.Body) bool {
	return configLayout.Of(config).V == "drop-in"
}

// checkThresholds warns if the kubelet has no threshold to evict for, and notes thresholds that are switched off.
func (r *renderer) checkThresholds(b schema.Body, n desired.Node) {
	_, isSet := n.Config["evictionHard"].(map[string]any)
	isSet = isSet && !kubelet.MergesEvictionHard(n.Config, r.in.Kubelet.KnownVersion())
	thresholds := stages.Amounts(n.Config, "evictionHard")
	next := "Write evictionHard = null in patch for the defaults."
	if f, ok := desired.FindFlag(n.Flags, "eviction-hard"); ok {
		isSet = true
		thresholds = map[string]string{}
		next = "Without the flag --eviction-hard it has those of the configuration."
		for t := range strings.SplitSeq(f.Value, ",") {
			if signal, threshold, ok := strings.Cut(t, "<"); ok {
				thresholds[signal] = threshold
			}
		}
	}
	if isSet && len(thresholds) == 0 {
		r.Warn(
			fault.ConfigInvalid, b.Range, "evictionHard has no threshold",
			"It is empty, so the kubelet uses none of its defaults and never evicts a pod. %s", next,
		)
	}

	maps.DeleteFunc(thresholds, func(_, t string) bool {
		return t != "0%" && t != "100%"
	})
	if off := slices.Sorted(maps.Keys(thresholds)); len(off) > 0 {
		r.Note(
			fault.ConfigInvalid, b.Range, "Thresholds of evictionHard are off: "+strings.Join(off, ", "),
			"For the kubelet 0%% and 100%% turn the threshold off, so it never evicts a pod for it.",
		)
	}
}

func (r *renderer) renderConfig(b schema.Body, n desired.Node) {
	if !r.in.Base.ConfigKnown || r.isSkipped(b) {
		r.whole = false
		return
	}
	r.checkThresholds(b, n)
	r.warnPlace(b, n)

	doc := kubelet.NewConfig()
	if isDropIn(b) {
		r.setDropIn(doc, b, n)
	} else if err := doc.Merge(n.Config); err != nil {
		r.Error(fault.ConfigInvalid, b.Range, "The kubelet's configuration cannot be written", "%s.", err)
	}
	file := r.kubeletFile(b, "kubelet-config", configTarget(b, r.in), string(doc.Canonical()))
	file.Config = doc.Object()
	r.add(b, file)
}

// setDropIn sets the settings of a node in a drop-in.
func (r *renderer) setDropIn(doc *kubelet.Config, b schema.Body, n desired.Node) {
	for _, s := range n.Settings {
		v, ok := dropInValue(s)
		if !ok {
			r.Report(refuseDelete(s.FindRange(b.Range), strings.Join(s.Path, ".")))
			continue
		}
		if err := doc.Set(s.Path, v); err != nil {
			r.Error(fault.ConfigInvalid, b.Range, "The kubelet's configuration cannot be written", "%s.", err)
		}
	}

	// A kubelet that merges drop-ins writes config.yaml out first and reads it again. An empty list is missing
	// then, and a missing enforceNodeAllocatable has a default: cmd/kubelet/app, mergeKubeletConfigurations. With
	// cgroupsPerQOS: false the kubelet does not start with that default. No other list has one.
	if v, ok := n.Config["enforceNodeAllocatable"].([]any); ok && len(v) == 0 {
		_ = doc.Set([]string{"enforceNodeAllocatable"}, v)
	}
}

// refuseDelete returns the error for the removal of a field of config.yaml in a drop-in.
func refuseDelete(at hcl.Range, field string) *hcl.Diagnostic {
	return origin.Error(
		fault.ConfigInvalid, at, "A drop-in cannot remove a field",
		"%s: the kubelet merges drop-ins over config.yaml, and they cannot remove a field. "+
			"Set another value, or use layout = \"file\".", field,
	)
}

// warnPlace warns of a configuration at another path than the kubelet's flags or its unit name.
func (r *renderer) warnPlace(b schema.Body, n desired.Node) {
	at, where, changes := b.Range, "Its unit has", "unit"
	file := r.in.Base.Inherited.ConfigFile
	target := configTarget(b, r.in)
	if f, isSet := desired.FindFlag(n.Flags, "config"); isSet {
		at, where, changes = f.FindRange(at), "It is started with", "flag"
		file = n.FindPath("config")
	}
	if file == "" || file == target || isDropIn(b) {
		return
	}

	r.Warn(
		fault.Conflict, at, "The kubelet reads another configuration",
		"%s --config=%s, and this stage writes %s, which that kubelet does not read: "+
			"nothing in it takes effect. Write path = %q in kubelet_config, or change the %s.",
		where, file, target, file, changes,
	)
}

// warnJoin warns of flags that name other files than those with which a node joins.
func (r *renderer) warnJoin(n desired.Node) {
	warn := func(name, target, next string) {
		f, isSet := desired.FindFlag(n.Flags, name)
		if isSet && f.Value != target {
			r.Warn(
				fault.Conflict, f.FindRange(r.cfg.Range), "The kubelet joins with another file",
				"It is started with --%s=%s in place of %s. %s", name, f.Value, target, fmt.Sprintf(next, f.Value),
			)
		}
	}
	if b, ok := r.cfg.One("bootstrap_kubeconfig"); ok {
		warn("bootstrap-kubeconfig", bootPath.Of(b).V, "Only the latter is written: write path = %q in "+
			"bootstrap_kubeconfig, or remove the flag.")
	}
	warn("kubeconfig", chooseLayout(r.in).Kubeconfig,
		"A node with %s counts as one that has not joined: remove the flag.")
}

// warnNotPassed warns of a flags file, or of a variable in it, that the kubelet's unit is known not to use. A drop-in
// of the site may change the unit.
func (r *renderer) warnNotPassed(b schema.Body, n desired.Node) {
	changesUnit := slices.ContainsFunc(n.Files, func(f desired.File) bool { return listUnitNames(f.Path) != nil })
	for _, f := range r.cfg.Blocks["file"] {
		changesUnit = changesUnit || listUnitNames(filePath.Of(f).V) != nil
	}
	by := n.Inherited.Line.OverriddenBy
	if n.Inherited.Line.IsPassed || !startsKubelet(r.in.Start) || changesUnit {
		return
	}

	at, what, uses := flagsVariable.Of(b).Range, "$"+flagsVariable.Of(b).V, []string(nil)
	line := cmp.Or(r.in.Start.At, "ExecStart=")
	next := "Add " + what + " to " + line
	for _, w := range r.in.Start.Words {
		if strings.HasPrefix(w, "$") {
			uses = append(uses, w)
		}
	}
	isUsed := slices.Contains(uses, what)
	if isUsed && !r.in.Start.Literal {
		at, what, uses = flagsPath.Of(b).Range, flagsTarget(b, r.in), r.in.Start.Files
		next = "Add EnvironmentFile=-" + what + " to it"
	}

	why := "Its unit does not use " + what
	switch {
	case r.in.Start.Literal:
		why = line + ": " + kubelet.WhyLiteral
		next = "Remove the colon"
		if !isUsed {
			next += ", and add " + what
		}
	case isUsed && by != "":
		why = by + " overrides $" + flagsVariable.Of(b).V + " of " + what
		next = "Remove it there"
	case len(uses) > 0:
		next = "Write what it uses: " + strings.Join(uses, ", ")
	}
	r.Warn(fault.Conflict, at, "The kubelet does not get these flags and labels", "%s. %s.", why, next)
}

// dropInValue returns the value that means "none" where a drop-in cannot remove a field of config.yaml: "0" for an
// amount, "" for CPUs. Other fields have no such value: a drop-in can replace and add, and cannot remove.
func dropInValue(s desired.Setting) (any, bool) {
	owners := []string{"kubeReserved", "systemReserved"}
	switch {
	case !s.Delete:
		return s.Value, true
	case len(s.Path) == 2 && slices.Contains(owners, s.Path[0]):
		return "0", true
	case len(s.Path) == 1 && s.Path[0] == "reservedSystemCPUs":
		return "", true
	}

	return nil, false
}

func (r *renderer) renderFlags(b schema.Body, n desired.Node) {
	if !r.in.Base.FlagsKnown || r.isSkipped(b) {
		r.whole = false
		return
	}

	read, _ := r.in.Base.FlagsFile.(flagsRead) // it is known, so Base has read it
	env, flags, isInFile := read.edit()
	r.setFlags(&flags, b, n)
	if len(flags.Names()) > 0 || isInFile {
		if err := env.Set(flagsVariable.Of(b).V, &flags); err != nil {
			r.Error(fault.FlagsInvalid, b.Range, "The kubelet's flags cannot be written", "%s.", err)
			return
		}
	}

	file := r.kubeletFile(b, "kubelet-flags", flagsTarget(b, r.in), env.String())
	if _, isSet := env.Get(flagsVariable.Of(b).V); isSet {
		file.Argv = flags.Argv()
		r.warnNotPassed(b, n)
	}
	r.warnJoin(n)
	if read.privateMode != 0 {
		file.Text = secret.TemplateText(env.String())
		file.Mode = read.privateMode
	}
	r.add(b, file)
}

// setFlags sets the flags of a node, its labels and its taints, in addition to those of the base.
func (r *renderer) setFlags(flags *kubelet.Flags, b schema.Body, n desired.Node) {
	set := func(flag, text string) {
		if err := flags.Set(flag, text); err != nil {
			r.Error(fault.FlagsInvalid, b.Range, "--"+flag+" cannot be written", "%s.", err)
		}
	}

	for _, f := range n.Flags {
		if len(f.Origins) == 0 || f.Origins[0].Kind != origin.Base {
			set(f.Name, f.Written())
		}
	}

	labels := map[string]string{}
	for _, l := range n.Labels {
		if !l.Inherited {
			labels[l.Key] = l.Value
		}
	}
	if len(labels) > 0 {
		old, _ := flags.Lookup(nodeLabels)
		set(nodeLabels, kubelet.MergeList(old, kubelet.LabelItems(labels)))
	}

	if r.added.TaintFlag && slices.ContainsFunc(n.Taints, isOwnTaint) { // the flag replaces an inherited one
		var taints []kubelet.Taint
		for _, t := range n.Taints {
			taints = append(taints, t.Taint)
		}
		old, _ := flags.Lookup(taintFlag)
		set(taintFlag, kubelet.MergeTaints(old, taints))
	}
}

// kubeletFile returns a file that every user may read.
func (r *renderer) kubeletFile(b schema.Body, purpose, path, text string) desired.File {
	return desired.File{
		Path:    path,
		Kind:    desired.Regular,
		Text:    secret.PlainText(text),
		Mode:    0o644,
		Purpose: purpose,
		Origins: place(r.in.Address, b.Range),
	}
}

func (r *renderer) add(b schema.Body, f desired.File) {
	if b.Undecided {
		r.whole = false
		return
	}
	r.out = append(r.out, f)
}

// isSkipped reports whether a block is not rendered because its condition is unknown. A check evaluates it all the
// same, without adding its file.
func (r *renderer) isSkipped(b schema.Body) bool {
	return b.Undecided && !r.in.Check
}
