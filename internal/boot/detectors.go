package boot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/site/eval"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// labelsByDetector has recommended labels by the name of the detector that recommends them.
type labelsByDetector = map[string]map[string]string

// detectorLock is what is known of a detector without running it.
type detectorLock struct {
	answer   world.Answer
	describe *contract.Description
}

// readLocks asks for the locks of the site's detectors; with nil nothing is known of any. It comes before everything,
// because types depend on it.
func readLocks(ctx context.Context, s *site.Site, from world.Source) map[string]detectorLock {
	locks := map[string]detectorLock{}
	for _, n := range sortKeys(s.Detectors) {
		if from == nil {
			locks[n] = detectorLock{}
			continue
		}
		said, ans, err := world.LockOf.Ask(ctx, from, world.LockReq{Name: n})
		l := detectorLock{answer: ans}
		if err == nil {
			d, err := stages.Description(said.Lock)
			if err == nil {
				l.describe = &d
			} else {
				l.answer = world.Failure(fault.DetectorFailed,
					fmt.Sprintf("The description of detector %q in %s cannot be used: %s", n, said.File, err), "")
			}
		}
		locks[n] = l
	}

	return locks
}

// detectors decodes the detector blocks, and checks their configuration along what is described.
func decodeDetectors(s *site.Site, locks map[string]detectorLock, e *eval.Eval) ([]stages.Detector, Findings) {
	var out []stages.Detector
	var found Findings
	for _, n := range sortKeys(s.Detectors) {
		x, more := decodeDetector(n, s.Detectors[n], locks[n], e)
		out, found = append(out, x), found.join(more)
	}

	return out, found
}

func decodeDetector(n string, det *site.Detector, l detectorLock, e *eval.Eval) (stages.Detector, Findings) {
	b, diags := schema.DetectorBlock.Decode(det.Body, []string{n}, e.Scope("detector."+n))
	found := Findings{Diags: diags, Unknown: findUnknown(b, partAccess)}
	timeout, _ := time.ParseDuration(schema.DetectorTimeout.Of(b).V)
	memory, _ := schema.Memory(schema.DetectorMemory.Of(b).V)
	x := stages.Detector{
		Name: n, Required: schema.DetectorRequired.Of(b).V, Timeout: timeout, Memory: memory, Range: det.Range,
		Lock: l.answer, Describe: l.describe,
		At: func(path string) hcl.Range { return findConfigRange(det, path, false) },
	}
	if a, ok := b.One("allow"); ok {
		x.Allow = world.Grants{Devices: schema.AllowDevices.Of(a).V, Read: schema.AllowRead.Of(a).V,
			Execute: schema.AllowExecute.Of(a).V, Sockets: schema.AllowSockets.Of(a).V, Groups: schema.AllowGroups.Of(a).V}
	}
	var open []string
	x.Config, open, diags = readConfig(b, det)
	found.report(diags...)
	if x.Describe != nil {
		whole, problems := contract.Config(x.Describe.Config, wrapLists(x.Describe.Config, x.Config))
		found.report(reportProblems(x, det, problems, open)...)
		x.Config = dropNulls(whole)
	}
	if e.Checking() {
		found.report(noteUnchecked(x)...)
	}

	return x, found
}

// unchecked says, where no machine is at hand, what of a detector shows on a node only. That a detector would not be
// started is an error or a warning here; on a node the detector itself says so, and only where it has something to do.
// That a configuration passes unseen is a mistake with a lock that cannot be used; where there is none, the lock is
// with the detector, on the node.
func noteUnchecked(d stages.Detector) hcl.Diagnostics {
	summary := fmt.Sprintf("The configuration of detector %q is not checked", d.Name)
	switch {
	case d.Describe != nil:
		return checkConsent(d)
	case d.Lock.Code() == fault.DetectorFailed:
		return hcl.Diagnostics{origin.Warning(fault.DetectorDegraded, d.Range, summary,
			"%s", stages.Sentence(d.Lock.Fault.Why, d.Lock.Fault.Next))}
	case d.Lock.Fault == nil || len(d.Config) == 0:
		return nil
	}

	return hcl.Diagnostics{origin.Note(fault.DetectorDegraded, d.Range, summary,
		"%s Nor is what the site reads of its facts. A lock that lies beside the site tells both, on any machine: prelet detectors lock --site --config DIR PROGRAM.",
		stages.Sentence(d.Lock.Fault.Why))}
}

func checkConsent(d stages.Detector) hcl.Diagnostics {
	if stages.Ungranted(d.Describe.Needs, d.Allow).Empty() {
		return nil
	}
	detail, hint := stages.NotGranted(*d.Describe, d.Allow)
	say, code, what := origin.Warning, fault.DetectorDegraded, "Detector %q lacks a grant"
	if d.Required {
		say, code, what = origin.Error, fault.DetectorFailed, "Detector %q is required, and lacks a grant"
	}

	return hcl.Diagnostics{say(code, d.Range, fmt.Sprintf(what, d.Name), "%s", stages.Sentence(detail, hint))}
}

// config are the values of a detector's config block; open names those of which nothing is known yet.
func readConfig(b schema.Body, det *site.Detector) (out map[string]any, open []string, diags hcl.Diagnostics) {
	c, ok := b.One("config")
	if !ok {
		return nil, nil, nil
	}
	out = map[string]any{}
	for _, k := range sortKeys(c.Free) {
		v := c.Free[k]
		at := findConfigRange(det, k, false)
		_, secrets, unread := value.Plain(v)
		switch {
		case len(secrets) > 0:
			diags = append(diags, origin.Error(fault.Sensitive, at, fmt.Sprintf("Detector %q cannot take a secret", det.Name),
				"%s: what a detector is asked stands in every recording.", k))
			open = append(open, k)
			continue
		case len(unread) > 0:
			diags = append(diags, origin.NotRead(at, fmt.Sprintf("detector %q %s", det.Name, k), unread))
			open = append(open, k)
			continue
		}
		g, err := value.ToGo(v)
		if err != nil {
			if v.IsWhollyKnown() {
				diags = append(diags, origin.Error(fault.WrongType, at,
					fmt.Sprintf("Detector %q cannot take %s", det.Name, k), "%s.", err))
			}
			open = append(open, k)
			continue
		}
		out[k] = g
	}
	return out, open, diags
}

// lists makes a list of a single object where one of objects is declared: in a site a block that stands once looks like
// one that may not be repeated.
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

// written leaves out what is null, which a detector has for unset all the same: so a question does not change when a
// new version of a detector declares one attribute more.
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

// configProblems are diagnostics at the lines of the site, less those about what is not known yet.
func reportProblems(d stages.Detector, det *site.Detector, problems contract.Problems, open []string) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, p := range problems {
		steps, err := contract.ParsePath(p.Path)
		if err == nil && len(steps) > 0 && slices.Contains(open, steps[0].Name) {
			continue
		}
		code, at := fault.WrongType, d.At(p.Path)
		switch p.Summary {
		case "no such attribute":
			code, at = fault.UnknownArgument, findConfigRange(det, p.Path, true)
		case "required, but not set":
			code = fault.MissingArgument
		}
		next := fmt.Sprintf("Version %s of the detector describes what it takes: prelet detectors list --long", d.Describe.Version)
		diags = append(diags, origin.Error(code, at, fmt.Sprintf("Detector %q: %s: %s", d.Name, nameConfigPath(p.Path), p.Summary),
			"%s", stages.Sentence(p.Detail, next)))
	}
	return diags
}

func nameConfigPath(path string) string {
	if path == "" {
		return "config"
	}
	return path
}

// configRange is the place in the site that a path of a detector's configuration names, as much of it as is written:
// that of the value, or of its name.
func findConfigRange(det *site.Detector, path string, name bool) hcl.Range {
	at := det.Range
	steps, err := contract.ParsePath(path)
	if err != nil {
		return at
	}
	for _, b := range det.Body.Blocks {
		if b.Type != "config" {
			continue
		}
		at = b.DefRange()
		if len(steps) == 0 {
			return at
		}
		a := b.Body.Attributes[steps[0].Name]
		if a == nil {
			return at
		}
		at = a.NameRange
		return followSteps(a.Expr, steps[1:], at, name)
	}
	return at
}

// inside follows steps through literals.
func followSteps(e hclsyntax.Expression, steps []contract.Step, at hcl.Range, name bool) hcl.Range {
	if len(steps) == 0 {
		if r := e.Range(); r.Filename != "" && !name && !isBlock(e) {
			return r
		}
		return at
	}
	switch x := value.Unwrap(e).(type) {
	case *hclsyntax.TupleConsExpr:
		if n := steps[0].Index; n != nil && *n < len(x.Exprs) {
			return followSteps(x.Exprs[*n], steps[1:], x.Exprs[*n].Range(), name)
		}
	case *hclsyntax.ObjectConsExpr:
		if n := steps[0].Index; n != nil && *n == 0 { // a block that stands once
			return followSteps(x, steps[1:], at, name)
		}
		key := steps[0].Name
		if steps[0].Key != nil {
			key = *steps[0].Key
		}
		for _, item := range x.Items {
			k, d := item.KeyExpr.Value(nil)
			if !d.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsNull() && k.AsString() == key {
				return followSteps(item.ValueExpr, steps[1:], item.KeyExpr.Range(), name)
			}
		}
	}
	return at
}

// isBlock says that an expression stands for a block: its first line is the place to show, not the whole.
func isBlock(e hclsyntax.Expression) bool {
	o, ok := value.Unwrap(e).(*hclsyntax.ObjectConsExpr)
	return ok && o.SrcRange.Start.Line != o.SrcRange.End.Line
}
