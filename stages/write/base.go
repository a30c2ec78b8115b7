package write

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	nodeLabels = "node-labels"
	taintFlag  = "register-with-taints"
)

// Base implements stages.Baser: the configuration and the flags that are there before decide adds to them.
func (Stage) Base(
	cfg schema.Body, in stages.Inputs, original func(string) (world.TargetAns, error),
) (node.Base, hcl.Diagnostics) {
	r := baseReader{in, original}
	var base node.Base
	var diags hcl.Diagnostics
	if b, ok := cfg.One("kubelet_flags"); ok {
		base, diags = r.flags(b)
	}
	diags = append(diags, r.inherit(&base, cfg)...)
	b, ok := cfg.One("kubelet_config")
	if !ok {
		return base, diags
	}

	c, ofConfig := r.config(b)
	base.Config, base.ConfigKnown, base.ConfigFrom = c.Config, c.ConfigKnown, c.ConfigFrom
	base.Unread = append(c.Unread, base.Unread...)
	diags = append(ofConfig, diags...)
	if base.ConfigKnown && !base.TaintFlag { // the flag would win
		taints, d := configTaints(base.Config, b.Range)
		base.Taints = append(base.Taints, taints...)
		diags = append(diags, d...)
	}
	return base, diags
}

// baseReader reads the texts that the base is made of.
type baseReader struct {
	in       stages.Inputs
	original func(path string) (world.TargetAns, error) // a file of the node as it was before prelet
}

// source is the text of one part of the base.
type source struct {
	text   string
	where  string     // it is from, for messages
	at     hcl.Range  // the place of the site that decides about it
	code   fault.Code // of a text that is no KubeletConfiguration
	known  bool
	unread []string // the questions without an answer that it is not known for
}

func layout(in stages.Inputs) kubelet.Layout {
	id, like := "", ""
	if in.Facts != nil && in.Facts.OS.ID != nil {
		id = *in.Facts.OS.ID
		for _, l := range in.Facts.OS.IDLike {
			like += l + " "
		}
	}
	l, _ := kubelet.LayoutFor(id, like)
	return l
}

// config is the part of the base that the KubeletConfiguration gives.
func (r baseReader) config(b schema.Body) (node.Base, hcl.Diagnostics) {
	p, how := configPath.Of(b), configLayout.Of(b)
	if !r.knowsPlace(p, how) {
		return node.Base{Unread: placeUnread(p.Cty, how.Cty, r.in)}, noLayout(p.Range, r.in)
	}

	src, diags := r.configSource(configBase.Of(b), how.V == "drop-in")
	base := node.Base{ConfigFrom: configBase.Of(b).Origins(), Unread: src.unread}
	if !src.known {
		return base, diags
	}
	c, err := kubelet.ParseConfig(src.text)
	if err != nil {
		next := "Fix it at its source; nothing was changed on this node"
		if src.code == fault.ConfigInvalid {
			next = "It is a whole KubeletConfiguration: single fields belong into patch"
		}
		return base, hcl.Diagnostics{origin.Error(src.code, src.at, "The base is not a KubeletConfiguration", "%s",
			stages.Sentence(src.where+": "+err.Error(), next))}
	}
	plain := kubelet.NewConfig() // null is not set: the file that is written has none
	if err := plain.Merge(c.Object()); err != nil {
		return base, hcl.Diagnostics{origin.Error(src.code, src.at, "The base is no KubeletConfiguration", "%s.", err)}
	}
	base.Config, base.ConfigKnown = plain.Object(), true
	if repeated := c.Repeated(); len(repeated) > 0 {
		diags = append(diags, origin.Warning(fault.ConfigInvalid, src.at, "The base has a key twice", "%s",
			stages.Sentence(src.where+": "+strings.Join(repeated, "; ")+": the kubelet takes the last one",
				"Keep one at its source")))
	}
	if at := value.FindLoneSurrogate(src.text); at >= 0 && strings.HasPrefix(strings.TrimSpace(src.text), "{") {
		diags = append(diags, origin.Warning(fault.Encoding, src.at, "The base has half of a character", "%s",
			stages.Sentence(fmt.Sprintf("%s: %s, an unpaired surrogate, is no character: the kubelet takes U+FFFD for it", src.where, src.text[at:at+6]),
				"Fix it at its source")))
	}
	return base, diags
}

// configSource is the text that the site gives, or with layout = "drop-in" the node's own file.
func (r baseReader) configSource(v schema.Value[string], dropIn bool) (source, hcl.Diagnostics) {
	where, at := "the base", v.Range
	if from := v.Origins(); len(from) > 0 && from[0].Kind == origin.Default {
		where, at = from[0].Ref, from[0].Range // the place that brought it, not the one that left it out
	}
	switch {
	case v.Set() && !isFetched(v.Origins()):
		return source{text: v.V, where: where, at: at, code: fault.ConfigInvalid, known: true}, nil
	case v.Set():
		return source{text: v.V, where: where, at: at, code: fault.ClusterUnusable, known: true}, nil
	case dropIn && v.Expr == nil:
		p := layout(r.in).ConfigFile
		src, exists, diags := r.file(p, v.Range, fault.FileUnusable)
		if src.known && !exists {
			return source{}, hcl.Diagnostics{origin.Error(fault.FileMissing, v.Range, "There is no "+p,
				"layout = \"drop-in\" adds to it as it was before prelet: what prelet wrote there goes with layout = \"file\". Let the image or kubeadm make it, or use layout = \"file\".")}
		}
		return src, diags
	case v.Null() && v.Expr == nil:
		return source{}, hcl.Diagnostics{origin.Error(fault.DefaultChoice, at, "No KubeletConfiguration to start from",
			"There is no fetch-config with config_map. "+
				"Declare one, write base = …, or leave the file out: kubelet_config { when = false }.")}
	case v.Null():
		return source{}, hcl.Diagnostics{origin.Error(fault.ConfigInvalid, at, "base is null",
			"A KubeletConfiguration is needed.")}
	}
	return unknownSource(v), nil
}

// isFetched reports whether a text rests on what a stage has fetched, and not on the site alone.
func isFetched(from []origin.Origin) bool {
	return slices.ContainsFunc(from, func(o origin.Origin) bool {
		return o.Kind == origin.Object || o.Kind == origin.Default
	})
}

// unknownSource is the text in a check without a machine, or where a recording does not tell (said already).
func unknownSource(v schema.Value[string]) source { return source{unread: value.Questions(v.Cty)} }

// file is the text of a file of the node as it was before prelet; code is for one that is no file.
func (r baseReader) file(p string, at hcl.Range, code fault.Code) (src source, exists bool, diags hcl.Diagnostics) {
	a, err := r.original(p)
	if err != nil {
		return source{unread: originalUnread(p, err, r.in)}, false, unread(code, at, p, err, r.in)
	}
	return source{text: a.Text, where: p, at: at, code: code, known: true}, a.Exists, nil
}

// knowsPlace says whether it is known where a part stands: its path, and what else the site writes of that.
func (r baseReader) knowsPlace(path, more schema.Value[string]) bool {
	return path.Cty.IsKnown() && more.Cty.IsKnown() && (path.Set() || !r.in.Unread.Facts)
}

// unread is what becomes of a base that cannot be read. Code is for one that is no file: a target that prelet could not
// replace either is a fault of this disk, not of the site.
func unread(code fault.Code, at hcl.Range, p string, err error, in stages.Inputs) hcl.Diagnostics {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return hcl.Diagnostics{origin.Error(code, at, "Cannot read "+p, "%s", err)}
	}
	switch f.Code {
	case fault.Unread:
		if in.Check {
			return nil
		}
		return hcl.Diagnostics{origin.NotRead(at, p, []string{"original " + p})}
	case fault.Denied:
		return hcl.Diagnostics{origin.MayNotRead(at, p, f.Why)}
	}
	return hcl.Diagnostics{stages.Diagnose(at, f.Raise(code, "Cannot read "+p))}
}

// originalUnread are the questions that a target's first text is unknown for.
func originalUnread(p string, err error, in stages.Inputs) []string {
	var f *fault.Fault
	if in.Check || !errors.As(err, &f) {
		return nil
	}
	switch f.Code {
	case fault.Unread:
		return []string{"original " + p}
	case fault.Denied:
		return []string{p}
	}

	return nil
}

// placeUnread are the questions that a file's place is unknown for.
func placeUnread(path, more cty.Value, in stages.Inputs) []string {
	out := append(value.Questions(path), value.Questions(more)...)
	if in.Unread.Facts {
		out = append(out, "facts")
	}

	return out
}

// noLayout is for a file whose place is unknown: of what the site wrote the decoder has said so; where the
// distribution decides, nobody has.
func noLayout(at hcl.Range, in stages.Inputs) hcl.Diagnostics {
	if !in.Unread.Facts {
		return nil
	}
	return hcl.Diagnostics{origin.NotRead(at, "the distribution's layout", []string{"facts"})}
}

func flagsFile(b schema.Body, in stages.Inputs) string {
	if p := flagsPath.Of(b); p.Set() {
		return p.V
	}
	return layout(in).FlagsFile
}

// flags is the part of the base that the kubelet's flags give: labels, taints and all others.
func (r baseReader) flags(b schema.Body) (node.Base, hcl.Diagnostics) {
	p, variable := flagsPath.Of(b), flagsVariable.Of(b)
	if !r.knowsPlace(p, variable) {
		return node.Base{Unread: placeUnread(p.Cty, variable.Cty, r.in)}, noLayout(p.Range, r.in)
	}

	v := flagsBase.Of(b)
	src, diags := r.flagsSource(v, flagsFile(b, r.in))
	base := node.Base{FlagsFrom: v.Origins(), Unread: src.unread}
	if !src.known {
		return base, diags
	}
	env, err := kubelet.ParseEnvFile(src.text)
	if err != nil {
		return base, hcl.Diagnostics{src.badFlags(err)}
	}
	if err := env.Ambiguous(); err != nil {
		diags = append(diags, origin.Warning(fault.FlagsInvalid, src.at, "systemds disagree about the flags", "%s",
			stages.Sentence(src.where+": "+err.Error())))
	}
	fl, ok := env.Get(variable.V)
	base.FlagsFile, base.FlagsKnown = flagsRead{env, fl}, true
	if !ok {
		return base, diags
	}

	if stray := fl.Stray(); len(stray) > 0 {
		report := origin.Warning
		if r.isRead(flagsFile(b, r.in), variable.V) {
			report = origin.Error
		}
		diags = append(diags, report(fault.FlagsInvalid, src.at, fmt.Sprintf("%q is no flag", stray[0]),
			"%s: the kubelet refuses to start for it. A # inside of the quotes comments nothing out. Take it out of %s.",
			src.where, variable.V))
	}
	from := origin.Origin{Kind: origin.Base, Role: origin.Value, Ref: flagsFile(b, r.in), Text: variable.V}
	if v.Set() { // by the site, and not what the file held before
		from.Range = v.Range
	}
	_, base.TaintFlag = fl.Lookup(taintFlag)
	given, d := r.given(fl, src, []origin.Origin{from})
	base.Contribution = given
	return base, append(diags, d...)
}

// isRead reports whether the kubelet's unit is known to start it with a variable of a file.
func (r baseReader) isRead(file, variable string) bool {
	s := r.in.Start
	if s == nil || len(s.Words) == 0 || path.Base(s.Words[0]) != "kubelet" || !slices.Contains(s.Files, file) {
		return false
	}

	return slices.Contains(s.Words, "$"+variable) || slices.Contains(s.Words, "${"+variable+"}")
}

// flagsSource is the text that the site gives, or else the node's own file.
func (r baseReader) flagsSource(v schema.Value[string], path string) (source, hcl.Diagnostics) {
	switch {
	case v.Set():
		return source{text: v.V, where: "the base of the flags", at: v.Range, known: true}, nil
	case v.Null():
		src, _, diags := r.file(path, v.Range, fault.CannotWrite)
		return src, diags
	}
	return unknownSource(v), nil
}

func (s source) badFlags(err error) *hcl.Diagnostic {
	return origin.Error(fault.FlagsInvalid, s.at, "The kubelet's flags cannot be read", "%s",
		stages.Sentence(s.where+": "+err.Error()))
}

// given sorts flags into labels, taints and others, each from an origin. It ends at the first that cannot be read.
func (r baseReader) given(
	fl *kubelet.Flags, src source, from []origin.Origin,
) (c node.Contribution, diags hcl.Diagnostics) {
	for _, name := range fl.Names() {
		text, _ := fl.Lookup(name)
		switch name {
		case nodeLabels:
			labels, err := kubelet.ParseLabels(text)
			if err != nil {
				return c, append(diags, src.badFlags(err))
			}
			for _, l := range labels {
				if d := oldLabel(l, src.at, r.in); d != nil {
					diags = append(diags, d)
				}
				c.Labels = append(c.Labels, node.Label{Key: l.Key, Value: l.Value, Origins: from})
			}
		case taintFlag:
			taints, err := kubelet.ParseTaints(text)
			if err != nil {
				return c, append(diags, src.badFlags(err))
			}
			for item := range strings.SplitSeq(text, ",") {
				if kubelet.IsTaintRemoval(strings.TrimSpace(item)) {
					diags = append(diags, origin.Warning(fault.FlagsInvalid, src.at, "A taint is not removed by a flag",
						"%s: the kubelet accepts %q in --register-with-taints, and does nothing. Take it out.", src.where, item))
				}
			}
			for _, t := range taints {
				c.Taints = append(c.Taints, node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, Origins: from})
			}
		default:
			c.Flags = append(c.Flags, node.Flag{Name: name, Value: text, Origins: from})
		}
	}
	return c, diags
}

// flagsRead is the environment file of the kubelet's flags, as it was read for the base. It is not written to.
type flagsRead struct {
	*kubelet.EnvFile
	flags *kubelet.Flags // nil: the variable is not in it
}

// edit are the file and the flags in its variable, to be changed.
func (f flagsRead) edit() (env kubelet.EnvFile, flags kubelet.Flags, ok bool) {
	if f.flags == nil {
		empty, _ := kubelet.ParseFlags("")
		return *f.EnvFile, *empty, false
	}

	return *f.EnvFile, *f.flags, true
}

// oldLabel minds labels of the base only where the kubelet's version is known: one of an old cluster may be right
// for an old kubelet.
func oldLabel(l kubelet.Label, at hcl.Range, in stages.Inputs) *hcl.Diagnostic {
	if in.Kubelet.Version == nil {
		return nil
	}
	if err := kubelet.CheckNodeKey(l.Key, *in.Kubelet.Version); err != nil {
		return origin.Error(fault.LabelForbidden, at, "The kubelet here refuses a label of the base", "%s",
			stages.Sentence(err.Error(), "The kubelet is "+*in.Kubelet.Version))
	}
	return nil
}

// configTaints reads registerWithTaints of the base's configuration.
func configTaints(config map[string]any, at hcl.Range) (taints []node.Taint, diags hcl.Diagnostics) {
	list, err := kubelet.ConfigTaints(config)
	if err != nil {
		diags = append(diags, origin.Error(fault.ConfigInvalid, at,
			"registerWithTaints of the base is not valid", "%s", stages.Sentence(err.Error())))
	}
	from := []origin.Origin{{Kind: origin.Base, Role: origin.Value, Ref: "registerWithTaints"}}
	for _, t := range list {
		taints = append(taints, node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, Origins: from})
	}

	return taints, diags
}
