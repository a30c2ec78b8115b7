package boot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// labelsByDetector has recommended labels by the name of the detector that recommends them.
type labelsByDetector = map[string]map[string]string

// detectorLock is what is known of a detector without running it.
type detectorLock struct {
	answer   world.Answer          // to the question for its lock
	describe *contract.Description // nil: not known
}

// readLocks asks for the locks of the site's detectors; from nil, nothing is known of any. It comes before all steps,
// because the types of outputs depend on it.
func readLocks(ctx context.Context, s *site.Site, from world.Source) map[string]detectorLock {
	locks := map[string]detectorLock{}
	for _, name := range sortKeys(s.Detectors) {
		locks[name] = readLock(ctx, name, from)
	}

	return locks
}

func readLock(ctx context.Context, name string, from world.Source) detectorLock {
	if from == nil {
		return detectorLock{}
	}
	a, ans, err := world.LockOf.Ask(ctx, from, world.LockReq{Name: name})
	if err != nil {
		return detectorLock{answer: ans}
	}
	d, err := stages.Description(a.Lock)
	if err != nil {
		return detectorLock{answer: world.Failure(fault.DetectorFailed,
			fmt.Sprintf("The description of detector %q in %s cannot be used: %s", name, a.File, err), "")}
	}

	return detectorLock{answer: ans, describe: &d}
}

// reportUnreadLocks names the locks that a recording was never asked for, where they can change the plan. A recording
// that is older than locks has what the detector reported. Of a detector that no stage asks, a lock can only refuse the
// configuration.
func reportUnreadLocks(all []stages.Detector, tape *world.Tape) (found Findings) {
	isAnswered := map[string]bool{}
	if tape != nil {
		for _, e := range tape.Entries() {
			r, err := world.DetectorOf.Request(e.Question)
			if e.Kind == world.KindDetector && err == nil && e.Answer.Code() != fault.Unread {
				isAnswered[r.Name] = true
			}
		}
	}

	for _, d := range all {
		if d.Lock.Code() != fault.Unread || isAnswered[d.Name] || len(d.Config) == 0 {
			continue
		}
		question := []string{"lock of detector " + d.Name}
		found.Unknown = found.Unknown.join(newUnknowns(question, partAccess))
		found.report(origin.NotRead(d.Range, "detector "+d.Name, question))
	}

	return found
}

// decodeDetectors decodes the detector blocks, and checks their configuration against what detectors describe.
func decodeDetectors(s *site.Site, locks map[string]detectorLock, e *eval.Eval) ([]stages.Detector, Findings) {
	var out []stages.Detector
	var found Findings
	for _, name := range sortKeys(s.Detectors) {
		d, more := decodeDetector(name, s.Detectors[name], locks[name], e)
		out, found = append(out, d), found.join(more)
	}

	return out, found
}

func decodeDetector(name string, block *site.Detector, l detectorLock, e *eval.Eval) (stages.Detector, Findings) {
	b, diags := schema.DetectorBlock.Decode(block.Body, []string{name}, e.Scope("detector."+name))
	found := Findings{Diags: diags, Unknown: findUnknown(b, partAccess)}
	timeout, _ := time.ParseDuration(schema.DetectorTimeout.Of(b).V)
	memory, _ := schema.Memory(schema.DetectorMemory.Of(b).V)
	d := stages.Detector{
		Name: name, Required: schema.DetectorRequired.Of(b).V, Timeout: timeout, Memory: memory, Range: block.Range,
		Lock: l.answer, Describe: l.describe,
		At: func(path string) hcl.Range { return findConfigRange(block, path, false) },
	}
	if a, ok := b.One("allow"); ok {
		d.Allow = world.Grants{
			Devices: schema.AllowDevices.Of(a).V, Read: schema.AllowRead.Of(a).V, Execute: schema.AllowExecute.Of(a).V,
			Sockets: schema.AllowSockets.Of(a).V, Groups: schema.AllowGroups.Of(a).V,
			AnyPCIDevice: schema.AllowAnyPCIDevice.Of(a).V,
		}
	}

	values, open, diags := readConfig(b, block)
	found.report(diags...)
	d.Config = values
	if d.Describe != nil {
		whole, problems := contract.Config(d.Describe.Config, wrapLists(d.Describe.Config, values))
		found.report(reportProblems(d, block, problems, open)...)
		d.Config = dropNulls(whole)
	}
	if e.Checking() {
		found.report(noteUnchecked(d)...)
	}

	return d, found
}

// noteUnchecked reports, in a check, what only a node shows of a detector. With a description: that the detector
// would not be started for lack of a grant (on a node, the detector's own stage reports that, where it has something
// to do). Without one: that its configuration is not checked, which is a warning if the lock cannot be used, and else
// a note, because the lock is with the detector on the node.
func noteUnchecked(d stages.Detector) hcl.Diagnostics {
	summary := fmt.Sprintf("The configuration of detector %q is not checked", d.Name)
	switch {
	case d.Describe != nil:
		return append(checkConsent(d), noteIdleGrant(d)...)
	case d.Lock.Code() == fault.DetectorFailed:
		return hcl.Diagnostics{origin.Warning(fault.DetectorDegraded, d.Range, summary,
			"%s", stages.Sentence(d.Lock.Fault.Why, d.Lock.Fault.Next))}
	case d.Lock.Fault == nil || len(d.Config) == 0:
		return nil
	}

	return hcl.Diagnostics{origin.Note(fault.DetectorDegraded, d.Range, summary,
		"%s Nor is what the site reads of its facts. A lock that lies beside the site tells both, on any machine: "+
			"prelet detectors lock --site --config DIR PROGRAM.", stages.Sentence(d.Lock.Fault.Why))}
}

// checkConsent reports a grant that a detector needs and the site does not give: an error if the detector is required.
func checkConsent(d stages.Detector) hcl.Diagnostics {
	if stages.Ungranted(d.Describe.Needs, d.Allow).Empty() {
		return nil
	}

	text := stages.Sentence(stages.NotGranted(*d.Describe, d.Allow))
	if d.Required {
		summary := fmt.Sprintf("Detector %q is required, and lacks a grant", d.Name)
		return hcl.Diagnostics{origin.Error(fault.DetectorFailed, d.Range, summary, "%s", text)}
	}
	summary := fmt.Sprintf("Detector %q lacks a grant", d.Name)

	return hcl.Diagnostics{origin.Warning(fault.DetectorDegraded, d.Range, summary, "%s", text)}
}

// noteIdleGrant reports any_pci_device for a detector that does not describe it: nothing changes by it.
func noteIdleGrant(d stages.Detector) hcl.Diagnostics {
	if !d.Allow.AnyPCIDevice || d.Describe.Needs.AnyPCIDevice || d.Describe.Wants.AnyPCIDevice {
		return nil
	}

	return hcl.Diagnostics{origin.Note(fault.DetectorDegraded, d.Range, fmt.Sprintf("A grant of detector %q does nothing", d.Name),
		"allow { any_pci_device = true } is for a detector that describes it. This one does not, so it must keep to the devices "+
			"of its pci_ids. Take it out, or ask its vendor.")}
}

// readConfig returns the values of a detector's config block; open has the names of those that are not known, or
// refused.
func readConfig(b schema.Body, block *site.Detector) (values map[string]any, open []string, diags hcl.Diagnostics) {
	c, ok := b.One("config")
	if !ok {
		return nil, nil, nil
	}

	values = map[string]any{}
	for _, name := range sortKeys(c.Free) {
		v, ok, d := readConfigValue(block, name, c.Free[name])
		diags = append(diags, d...)
		if ok {
			values[name] = v
		} else {
			open = append(open, name)
		}
	}

	return values, open, diags
}

// readConfigValue returns one value as plain Go. It is not ok if the value is secret, of a wrong type, or not known.
func readConfigValue(block *site.Detector, name string, v cty.Value) (out any, ok bool, diags hcl.Diagnostics) {
	at := findConfigRange(block, name, false)
	_, secrets, unread := value.Plain(v)
	switch {
	case len(secrets) > 0:
		return nil, false, hcl.Diagnostics{origin.Error(fault.Sensitive, at,
			fmt.Sprintf("Detector %q cannot take a secret", block.Name),
			"%s: what a detector is asked stands in every recording.", name)}
	case len(unread) > 0:
		return nil, false, hcl.Diagnostics{origin.NotRead(at, fmt.Sprintf("detector %q %s", block.Name, name), unread)}
	}

	out, err := value.ToGo(v)
	switch {
	case err == nil:
		return out, true, nil
	case !v.IsWhollyKnown():
		return nil, false, nil
	}

	return nil, false, hcl.Diagnostics{origin.Error(fault.WrongType, at,
		fmt.Sprintf("Detector %q cannot take %s", block.Name, name), "%s.", err)}
}

// wrapLists makes a list of a single object where a list of objects is declared: in a site, a block that is written
// once looks like one that cannot be repeated.
func wrapLists(declared []contract.Attribute, config map[string]any) map[string]any {
	if config == nil {
		return nil
	}

	out := map[string]any{}
	for k, v := range config {
		if i := slices.IndexFunc(declared, func(a contract.Attribute) bool { return a.Name == k }); i >= 0 {
			v = wrapList(declared[i].Type, v)
		}
		out[k] = v
	}

	return out
}

func wrapList(t contract.Type, v any) any {
	o, object := v.(map[string]any)
	switch {
	case object && t.Kind == contract.Object:
		return wrapLists(t.Attributes, o)
	case object && t.Kind == contract.List && t.Element != nil && t.Element.Kind == contract.Object:
		return []any{wrapLists(t.Element.Attributes, o)}
	}

	return v
}

// dropNulls removes what is null from a configuration, and returns nil for an empty one. For a detector null is the
// same as unset, so a question stays the same when a new version of a detector declares one attribute more.
func dropNulls(config map[string]any) map[string]any {
	for k, v := range config {
		if v == nil {
			delete(config, k)
		}
	}
	if len(config) == 0 {
		return nil
	}

	return config
}

// reportProblems returns diagnostics at the lines of the site, except for values that are open.
func reportProblems(d stages.Detector, block *site.Detector, problems contract.Problems,
	open []string) hcl.Diagnostics {
	next := fmt.Sprintf("Version %s of the detector describes what it takes: prelet detectors list --long",
		d.Describe.Version)
	var diags hcl.Diagnostics
	for _, p := range problems {
		steps, err := contract.ParsePath(p.Path)
		if err == nil && len(steps) > 0 && slices.Contains(open, steps[0].Name) {
			continue
		}

		code, at := fault.WrongType, d.At(p.Path)
		switch p.Summary {
		case "no such attribute":
			code, at = fault.UnknownArgument, findConfigRange(block, p.Path, true)
		case "required, but not set":
			code = fault.MissingArgument
		}
		what := p.Path
		if what == "" {
			what = "config"
		}
		diags = append(diags, origin.Error(code, at, fmt.Sprintf("Detector %q: %s: %s", d.Name, what, p.Summary),
			"%s", stages.Sentence(p.Detail, next)))
	}

	return diags
}

// findConfigRange returns the place in the site that a path of a detector's configuration names, as far as it is
// written: that of the value, or with isName that of its name.
func findConfigRange(block *site.Detector, path string, isName bool) hcl.Range {
	steps, err := contract.ParsePath(path)
	if err != nil {
		return block.Range
	}
	i := slices.IndexFunc(block.Body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "config" })
	if i < 0 {
		return block.Range
	}

	config := block.Body.Blocks[i]
	if len(steps) == 0 {
		return config.DefRange()
	}
	a := config.Body.Attributes[steps[0].Name]
	if a == nil {
		return config.DefRange()
	}

	return followSteps(a.Expr, steps[1:], a.NameRange, isName)
}

// followSteps follows steps through literals, and returns the place of the last that is written; at is that of e's
// name.
func followSteps(e hclsyntax.Expression, steps []contract.Step, at hcl.Range, isName bool) hcl.Range {
	if len(steps) == 0 {
		if r := e.Range(); r.Filename != "" && !isName && !isBlock(e) {
			return r
		}
		return at
	}

	switch x := value.Unwrap(e).(type) {
	case *hclsyntax.TupleConsExpr:
		if n := steps[0].Index; n != nil && *n < len(x.Exprs) {
			return followSteps(x.Exprs[*n], steps[1:], x.Exprs[*n].Range(), isName)
		}
	case *hclsyntax.ObjectConsExpr:
		if n := steps[0].Index; n != nil && *n == 0 { // a block that is written once
			return followSteps(x, steps[1:], at, isName)
		}
		if item, ok := findItem(x, steps[0]); ok {
			return followSteps(item.ValueExpr, steps[1:], item.KeyExpr.Range(), isName)
		}
	}

	return at
}

// findItem returns the item of an object literal that a step names.
func findItem(x *hclsyntax.ObjectConsExpr, step contract.Step) (hclsyntax.ObjectConsItem, bool) {
	key := step.Name
	if step.Key != nil {
		key = *step.Key
	}
	for _, item := range x.Items {
		k, d := item.KeyExpr.Value(nil)
		if !d.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsNull() && k.AsString() == key {
			return item, true
		}
	}

	return hclsyntax.ObjectConsItem{}, false
}

// isBlock reports whether an expression is a block of the site: its first line is the place to show, not the whole.
func isBlock(e hclsyntax.Expression) bool {
	o, ok := value.Unwrap(e).(*hclsyntax.ObjectConsExpr)

	return ok && o.SrcRange.Start.Line != o.SrcRange.End.Line
}

// unknownDetectors warns of detectors and of patterns of labels that a site names and nothing describes: a misspelt name.
func unknownDetectors(s *site.Site, known map[string]detectorLock, locks world.Source) (diags hcl.Diagnostics) {
	var installed []string
	if l, ok := locks.(interface{ Installed() []string }); ok {
		installed = l.Installed()
	}
	isWhole := locks != nil // whether all that is declared is described
	var domains []string
	for _, n := range sortKeys(s.Detectors) {
		if d := known[n].describe; d != nil {
			domains = append(domains, d.LabelDomains...)
			continue
		}
		isWhole = false
		if slices.Contains(installed, n) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(installed), func(o string) bool { return s.Detectors[o] != nil })
		if near := schema.Nearest(n, others); near != "" {
			diags = append(diags, origin.Warning(fault.DetectorUnknown, s.Detectors[n].Range, fmt.Sprintf("Detector %q is not installed, and %q is", n, near),
				"Did you mean %q? Nothing is known of %q here: neither a program nor a lock has that name.", near, n))
		}
	}
	if !isWhole {
		return diags
	}
	for _, i := range s.Stages {
		diags = append(diags, undescribedLabels(i, domains)...)
	}

	return diags
}

// undescribedLabels warns of patterns of from_detectors that take nothing of the described domains. A pattern with a wildcard in its
// domain may.
func undescribedLabels(i *site.Instance, domains []string) (diags hcl.Diagnostics) {
	attr := i.Body.Attributes["from_detectors"]
	if i.Type != "label" || attr == nil {
		return nil
	}
	list, ok := value.Unwrap(attr.Expr).(*hclsyntax.TupleConsExpr)
	if !ok {
		return nil
	}
	for _, e := range list.Exprs {
		v, failed := e.Value(nil)
		if failed.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
			continue
		}
		domain, _, _ := strings.Cut(v.AsString(), "/")
		isWide := strings.ContainsAny(domain, `*?[\`)
		isOne := slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
		if isOne || isWide && len(domains) > 0 {
			continue
		}
		what := "No detector that the site declares recommends labels."
		if len(domains) > 0 {
			what = "The detectors that the site declares describe: " + strings.Join(domains, ", ") + "."
		}
		diags = append(diags, origin.Warning(fault.DetectorUnknown, e.Range(), fmt.Sprintf("from_detectors takes nothing of %q", v.AsString()),
			"%s Declare the detector, or correct the pattern.", what))
	}

	return diags
}
