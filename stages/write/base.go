package write

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	nodeLabels = "node-labels"
	taintFlag  = "register-with-taints"
)

// Base implements stages.Baser. It returns the configuration and the flags before decide stages add to them.
func (Stage) Base(
	cfg schema.Body, in stages.Inputs, original func(string) (tape.TargetAns, error),
) (base desired.Base, _ hcl.Diagnostics) {
	r := &baseReader{in: in, original: original}
	config, hasConfig := cfg.One("kubelet_config")
	if hasConfig {
		r.readConfig(&base, config)
		base.Instance = r.readInstance(config)
	}
	if b, ok := cfg.One("kubelet_flags"); ok {
		r.readFlags(&base, b)
	}
	r.collectInherited(&base, cfg)
	if base.ConfigKnown && !base.TaintFlag { // the flag would override them
		base.Taints = append(base.Taints, r.makeConfigTaints(base.Config, config.Range)...)
	}

	return base, r.Diags
}

type baseReader struct {
	in       stages.Inputs
	original func(path string) (tape.TargetAns, error) // a file of the node as it was before prelet
	origin.Collector
}

// source is the text of one part of the base.
type source struct {
	text  string
	where string     // its file or stage, for messages
	at    hcl.Range  // the place of the site that chooses it
	code  fault.Code // of a text that is not a KubeletConfiguration
	known bool

	privateMode uint32 // of a file of which parts are withheld; 0: nothing is
}

func chooseLayout(in stages.Inputs) kubelet.Layout {
	id := ""
	like := ""
	if in.Facts != nil && in.Facts.OS.ID != nil {
		id = *in.Facts.OS.ID
		like = strings.Join(in.Facts.OS.IDLike, " ")
	}

	return kubelet.LayoutFor(id, like)
}

// readConfig reads the part of the base in the KubeletConfiguration.
func (r *baseReader) readConfig(base *desired.Base, b schema.Body) {
	p := configPath.Of(b)
	layout := configLayout.Of(b)
	if !p.Cty.IsKnown() || !layout.Cty.IsKnown() {
		return
	}

	src := r.chooseConfigSource(configBase.Of(b), isDropIn(b))
	base.ConfigFrom = configBase.Of(b).Origins()
	if !src.known {
		return
	}
	parse := r.in.ParseConfig
	if isDropIn(b) {
		parse = kubelet.ParseConfigFile // the kubelet reads it, and not what prelet makes of it
	}
	c, err := parse(src.text)
	plain := kubelet.NewConfig() // without nulls, which mean unset
	if err == nil {
		doc := c.Object()
		if isDropIn(b) {
			doc = c.Clone().Object()
			kubelet.DecodeNulls(doc)
		}
		err = plain.Merge(doc)
	}
	if err != nil {
		next := "Fix it at its source; nothing was changed on this node"
		if src.code == fault.ConfigInvalid {
			next = "A whole KubeletConfiguration is needed: write single fields in patch"
		}
		r.Error(
			src.code, src.at, "The base is not a KubeletConfiguration",
			"%s", stages.Sentence(src.where+": "+err.Error(), next),
		)
		return
	}

	base.Config = plain.Object()
	if isDropIn(b) {
		base.File = c.Object()
	}
	base.ConfigKnown = true
	r.warnConfig(src, c.Repeated())
}

// warnConfig warns of duplicate keys and of an invalid character.
func (r *baseReader) warnConfig(s source, duplicates []string) {
	const maxNamed = 10
	if hidden := len(duplicates) - maxNamed; hidden > 0 {
		duplicates = append(duplicates[:maxNamed], fmt.Sprintf("and %d more", hidden))
	}
	if len(duplicates) > 0 {
		why := s.where + ": " + strings.Join(duplicates, "; ") + ": the kubelet uses the last one"
		r.Warn(
			fault.ConfigInvalid, s.at, "The base has a duplicate key",
			"%s", stages.Sentence(why, "Keep one at its source"),
		)
	}

	isJSON := strings.HasPrefix(strings.TrimSpace(s.text), "{")
	if at := codec.FindLoneSurrogate(s.text); at >= 0 && isJSON {
		why := fmt.Sprintf(
			"%s: %s is an unpaired surrogate, which is not a character: the kubelet reads U+FFFD",
			s.where, s.text[at:at+6],
		)
		r.Warn(
			fault.Encoding, s.at, "The base has half of a character",
			"%s", stages.Sentence(why, "Fix it at its source"),
		)
	}
}

// chooseConfigSource returns the text of the site, or with layout = "drop-in" the node's own file.
func (r *baseReader) chooseConfigSource(v schema.Value[string], isDropIn bool) source {
	where := "the base"
	at := v.Range
	if from := v.Origins(); len(from) > 0 && from[0].Kind == origin.Default {
		where = from[0].Ref
		at = from[0].Range // the stage of the default, and not the block that sets no base
	}
	switch {
	case isParsed(v.Expr):
		refuseParsed(&r.Collector, v, "Write yamlencode(…) around it; the text of a ConfigMap is in its data.KEY.")
	case v.Set():
		code := fault.ConfigInvalid
		if isFetched(v.Origins()) {
			code = fault.ClusterUnusable
		}
		return source{
			text:  v.V,
			where: where,
			at:    at,
			code:  code,
			known: true,
		}
	case isDropIn && v.Expr == nil:
		return r.readConfigFile(v.Range)
	case v.Null() && v.Expr == nil:
		r.Error(
			fault.DefaultChoice, at, "No KubeletConfiguration to start from",
			"No fetch-config with config_map. Declare one, write base = …, or leave the file out: "+
				"kubelet_config { when = false }.",
		)
	case v.Null():
		r.Error(
			fault.ConfigInvalid, at, "base is null", "A KubeletConfiguration is needed.",
		)
	}

	return source{}
}

// isParsed reports whether an expression is the value of a fetch-config: a file that was parsed, or null.
func isParsed(x hclsyntax.Expression) bool {
	if x == nil {
		return false
	}
	t, diags := hcl.AbsTraversalForExpr(x)
	if diags.HasErrors() || t.RootName() != "stage" || len(t) < 4 {
		return false
	}
	stage, isAttr := t[1].(hcl.TraverseAttr)
	output, _ := t[len(t)-1].(hcl.TraverseAttr)

	return isAttr && stage.Name == stages.FetchConfig && len(t) <= 5 && output.Name == "value"
}

// refuseParsed refuses an argument that is a parsed file, and needs its text. Its type is known only on a machine.
func refuseParsed(r *origin.Collector, v schema.Value[string], next string) {
	const why = "The value of a fetch-config is its file as parsed YAML."
	r.Error(fault.WrongType, v.Range, "A text is needed, and this is a parsed file", "%s %s", why, next)
}

// readConfigFile returns the configuration that a drop-in adds to.
func (r *baseReader) readConfigFile(at hcl.Range) source {
	p := chooseLayout(r.in).ConfigFile
	src, exists := r.readFile(p, at, fault.FileUnusable)
	if src.known && !exists {
		r.Error(
			fault.FileMissing, at, p+" does not exist",
			"layout = \"drop-in\" adds to this file as it was before prelet: "+
				"a file that prelet wrote there is removed with layout = \"file\". "+
				"Let the image or kubeadm make it, or use layout = \"file\".",
		)
		return source{}
	}

	return src
}

// isFetched reports whether a text depends on a stage's fetched data, and not on the site alone.
func isFetched(from []origin.Origin) bool {
	return slices.ContainsFunc(from, func(o origin.Origin) bool {
		return o.Kind == origin.Object || o.Kind == origin.Default
	})
}

// readFile returns the text of a file of the node as it was before prelet. code is the code of a path that is not a
// file.
func (r *baseReader) readFile(
	p string, at hcl.Range, code fault.Code,
) (src source, exists bool) {
	a, err := r.original(p)
	if err != nil {
		r.reportUnreadable(code, at, p, err)
		return source{}, false
	}

	src = source{
		text:  a.Text,
		where: p,
		at:    at,
		code:  code,
		known: true,
	}
	if a.Private {
		src.privateMode = a.Mode&0o640 | 0o600
	}

	return src, a.Exists
}

// reportUnreadable reports a file of the node that could not be read. code is the code of a path that is not a file:
// prelet could not replace that either, so the disk is wrong and not the site.
func (r *baseReader) reportUnreadable(
	code fault.Code,
	at hcl.Range,
	p string,
	err error,
) {
	var f *fault.Fault
	switch {
	case !errors.As(err, &f):
		r.Error(code, at, "Cannot read "+p, "%s", err)
	case f.Code == fault.Unread && r.in.Check:
	case f.Code == fault.Unread:
		r.Report(origin.NotRead(at, p+" as it was before prelet"))
	case f.Code == fault.Denied:
		r.Report(origin.MayNotRead(at, p, f.Why))
	default:
		r.Report(stages.Diagnose(at, f.Raise(code, "Cannot read "+p)))
	}
}

func flagsTarget(b schema.Body, in stages.Inputs) string {
	if p := flagsPath.Of(b); p.Set() {
		return p.V
	}

	return chooseLayout(in).FlagsFile
}

// readFlags reads the part of the base in the kubelet's flags: labels, taints and all other flags.
func (r *baseReader) readFlags(base *desired.Base, b schema.Body) {
	p := flagsPath.Of(b)
	variable := flagsVariable.Of(b)
	if !p.Cty.IsKnown() || !variable.Cty.IsKnown() {
		return
	}

	v := flagsBase.Of(b)
	file := flagsTarget(b, r.in)
	src := r.chooseFlagsSource(v, file)
	base.FlagsFrom = v.Origins()
	if !src.known {
		return
	}
	env, err := kubelet.ParseEnvFile(src.text)
	if err != nil {
		r.refuseFlags(src, err)
		return
	}
	if err := env.Ambiguous(); err != nil {
		r.Warn(
			fault.FlagsInvalid, src.at, "Versions of systemd read the flags differently",
			"%s", stages.Sentence(src.where+": "+err.Error()),
		)
	}
	flags, ok := env.Get(variable.V)
	base.FlagsFile = flagsRead{env, flags, src.privateMode}
	base.FlagsKnown = true
	if !ok {
		return
	}

	from := origin.Origin{
		Kind: origin.Base,
		Role: origin.Value,
		Ref:  file,
		Text: variable.V,
	}
	if v.Set() { // by the site, and not by the file before prelet
		from.Range = v.Range
	}
	_, base.TaintFlag = flags.Lookup(taintFlag)
	base.Contribution = r.sortFlags(flags, src, []origin.Origin{from})
}

// chooseFlagsSource returns the text of the site, or else the node's own file.
func (r *baseReader) chooseFlagsSource(v schema.Value[string], path string) source {
	switch {
	case v.Set():
		return source{
			text:  v.V,
			where: "the base of the flags",
			at:    v.Range,
			known: true,
		}
	case v.Null():
		src, _ := r.readFile(path, v.Range, fault.CannotWrite)
		return src
	}

	return source{}
}

func (r *baseReader) refuseFlags(s source, err error) {
	detail := stages.Sentence(s.where + ": " + err.Error())
	r.Error(fault.FlagsInvalid, s.at, "The kubelet's flags cannot be read", "%s", detail)
}

// sortFlags sorts flags into labels, taints and others, each from an origin.
func (r *baseReader) sortFlags(flags *kubelet.Flags, src source, from []origin.Origin) desired.Contribution {
	c, err := desired.SplitFlags(flags, from)
	if err != nil {
		r.refuseFlags(src, err)
		return c
	}

	taints, _ := flags.Lookup(taintFlag)
	r.warnTaintRemovals(src, taints)

	return c
}

func (r *baseReader) warnTaintRemovals(s source, text string) {
	for item := range strings.SplitSeq(text, ",") {
		if kubelet.IsTaintRemoval(strings.TrimSpace(item)) {
			r.Warn(
				fault.FlagsInvalid, s.at, "A flag cannot remove a taint",
				"%s: the kubelet accepts %q in --register-with-taints, and does nothing. Remove it.", s.where, item,
			)
		}
	}
}

// flagsRead is the environment file of the kubelet's flags, as it was read for the base. It is not changed.
type flagsRead struct {
	*kubelet.EnvFile
	flags *kubelet.Flags // nil: the variable is not in it

	privateMode uint32 // of a file with placeholders for withheld parts; 0: it has none
}

// edit returns copies of the file and of the flags in its variable; not ok if the variable is not in the file.
func (f flagsRead) edit() (env kubelet.EnvFile, flags kubelet.Flags, ok bool) {
	if f.flags == nil {
		empty, _ := kubelet.ParseFlags("")
		return *f.EnvFile, *empty, false
	}

	return *f.EnvFile, *f.flags, true
}

func (r *baseReader) makeConfigTaints(config map[string]any, at hcl.Range) []desired.Taint {
	list, err := kubelet.ConfigTaints(config)
	if err != nil {
		r.Error(
			fault.ConfigInvalid, at, "registerWithTaints of the base is not valid",
			"%s", stages.Sentence(err.Error()),
		)
	}

	return desired.MakeTaints(list, []origin.Origin{inheritedFrom("registerWithTaints")})
}
