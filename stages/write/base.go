package write

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	nodeLabels = "node-labels"
	taintFlag  = "register-with-taints"
)

// Base implements stages.Baser: the configuration and the flags that are there before decide adds to them.
func (Stage) Base(cfg schema.Body, in stages.Inputs, original func(string) (world.TargetAns, error)) (node.Base, hcl.Diagnostics) {
	var base node.Base
	var diags hcl.Diagnostics
	if b, ok := cfg.One("kubelet_config"); ok {
		diags = append(diags, configuration(b, in, original, &base)...)
	}
	if b, ok := cfg.One("kubelet_flags"); ok {
		diags = append(diags, flags(b, in, original, &base)...)
	}
	if b, ok := cfg.One("kubelet_config"); ok && base.ConfigKnown && !base.TaintFlag {
		diags = append(diags, configTaints(&base, b.Range)...)
	}
	return base, diags
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

func configuration(b schema.Body, in stages.Inputs, original func(string) (world.TargetAns, error), base *node.Base) hcl.Diagnostics {
	v := configBase.Of(b)
	if p := configPath.Of(b); !p.Cty.IsKnown() || !configLayout.Of(b).Cty.IsKnown() || in.Unread.Facts && !p.Set() {
		base.Unread = append(base.Unread, placeUnread(p.Cty, configLayout.Of(b).Cty, in)...)
		return noLayout(p.Range, in)
	}
	text := v.V
	at := v.Range
	where := "the base"
	base.ConfigFrom = v.Origins()
	if from := v.Origins(); len(from) > 0 && from[0].Kind == origin.Default { // the place that brought it, not the one that left it out
		where, at = from[0].Ref, from[0].Range
	}
	file := false
	switch {
	case v.Set():
	case configLayout.Of(b).V == "drop-in" && v.Expr == nil:
		p := layout(in).ConfigFile
		where, at, file = p, v.Range, true
		a, err := original(p)
		if err != nil {
			base.Unread = append(base.Unread, originalUnread(p, err, in)...)
			return unread(fault.FileUnusable, at, p, err, in)
		}
		if !a.Exists {
			return hcl.Diagnostics{origin.Error(fault.FileMissing, at, "There is no "+p, "layout = \"drop-in\" adds to it. Let the image or kubeadm make it, or use layout = \"file\".")}
		}
		text = a.Text
	case v.Null() && v.Expr == nil:
		return hcl.Diagnostics{origin.Error(fault.DefaultChoice, at, "No KubeletConfiguration to start from", "There is no fetch-config with config_map. Declare one, write base = …, or leave the file out: kubelet_config { when = false }.")}
	case v.Null():
		return hcl.Diagnostics{origin.Error(fault.ConfigInvalid, at, "base is null", "A KubeletConfiguration is needed.")}
	default:
		base.Unread = append(base.Unread, value.Questions(v.Cty)...)
		return nil // unknown: a check without a machine, or a recording that does not tell (said already)
	}
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		code := fault.ClusterUnusable
		if file {
			code = fault.FileUnusable
		}
		return hcl.Diagnostics{origin.Error(code, at, "The base is no KubeletConfiguration", "%s", stages.Sentence(where+": "+err.Error(), "Mend it at its source; nothing was changed on this node"))}
	}
	base.Config, base.ConfigKnown = c.Object(), true
	return nil
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

func flags(b schema.Body, in stages.Inputs, original func(string) (world.TargetAns, error), base *node.Base) hcl.Diagnostics {
	v := flagsBase.Of(b)
	if p := flagsPath.Of(b); !p.Cty.IsKnown() || !flagsVariable.Of(b).Cty.IsKnown() || in.Unread.Facts && !p.Set() {
		base.Unread = append(base.Unread, placeUnread(p.Cty, flagsVariable.Of(b).Cty, in)...)
		return noLayout(p.Range, in)
	}
	p := flagsFile(b, in)
	text := v.V
	where := "the base of the flags"
	base.FlagsFrom = v.Origins()
	switch {
	case v.Set():
	case v.Null():
		where = p
		a, err := original(p)
		if err != nil {
			base.Unread = append(base.Unread, originalUnread(p, err, in)...)
			return unread(fault.CannotWrite, v.Range, p, err, in)
		}
		text = a.Text
	default:
		base.Unread = append(base.Unread, value.Questions(v.Cty)...)
		return nil
	}
	bad := func(err error) hcl.Diagnostics {
		return hcl.Diagnostics{origin.Error(fault.FlagsInvalid, v.Range, "The kubelet's flags cannot be read", "%s", stages.Sentence(where+": "+err.Error()))}
	}
	env, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return bad(err)
	}
	var diags hcl.Diagnostics
	if err := env.Ambiguous(); err != nil {
		diags = append(diags, origin.Warning(fault.FlagsInvalid, v.Range, "systemds disagree about the flags", "%s", stages.Sentence(where+": "+err.Error())))
	}
	fl, ok := env.Get(flagsVariable.Of(b).V)
	base.FlagsFile, base.FlagsKnown = flagsRead{env, fl}, true
	if !ok {
		return diags
	}
	for _, w := range fl.Stray() {
		diags = append(diags, origin.Warning(fault.FlagsInvalid, v.Range, fmt.Sprintf("%q is no flag", w), "%s: the kubelet refuses to start for it. A # inside of the quotes comments nothing out.", where))
		break
	}
	from := []origin.Origin{{Kind: origin.Base, Role: origin.Value, Ref: p, Text: flagsVariable.Of(b).V}}
	if v.Set() { // by the site, and not what the file held before
		from[0].Range = v.Range
	}
	for _, n := range fl.Names() {
		val, _ := fl.Lookup(n)
		switch n {
		case nodeLabels:
			ls, err := kubelet.ParseLabels(val)
			if err != nil {
				return append(diags, bad(err)...)
			}
			for _, l := range ls {
				if d := oldLabel(l, v.Range, in); d != nil {
					diags = append(diags, d)
				}
				base.Labels = append(base.Labels, node.Label{Key: l.Key, Value: l.Value, Origins: from})
			}
		case taintFlag:
			base.TaintFlag = true
			ts, err := kubelet.ParseTaints(val)
			if err != nil {
				return append(diags, bad(err)...)
			}
			for _, t := range ts {
				base.Taints = append(base.Taints, node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, Origins: from})
			}
		default:
			base.Flags = append(base.Flags, node.Flag{Name: n, Value: val, Origins: from})
		}
	}
	return diags
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
		return origin.Error(fault.LabelForbidden, at, "The kubelet here refuses a label of the base", "%s", stages.Sentence(err.Error(), "The kubelet is "+*in.Kubelet.Version))
	}
	return nil
}

// configTaints reads registerWithTaints of the base's configuration. A flag would win over it.
func configTaints(base *node.Base, at hcl.Range) hcl.Diagnostics {
	list, _ := base.Config["registerWithTaints"].([]any)
	from := []origin.Origin{{Kind: origin.Base, Role: origin.Value, Ref: "registerWithTaints"}}
	for _, x := range list {
		m, _ := x.(map[string]any)
		t := kubelet.Taint{}
		t.Key, _ = m["key"].(string)
		t.Value, _ = m["value"].(string)
		t.Effect, _ = m["effect"].(string)
		if err := t.Check(); err != nil {
			return hcl.Diagnostics{origin.Error(fault.ConfigInvalid, at, "registerWithTaints of the base is not valid", "%s", stages.Sentence(err.Error()))}
		}
		base.Taints = append(base.Taints, node.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect, Origins: from})
	}
	return nil
}
