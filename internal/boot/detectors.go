package boot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// labelsByDetector has recommended labels by the name of the detector that recommends them.
type labelsByDetector = map[string]map[string]string

// detectorLock is the lock of a detector, which describes it without running it.
type detectorLock struct {
	answer   world.Answer          // to the question for the lock
	describe *contract.Description // nil: not known
}

// readLocks asks for the locks of the site's detectors; without a source there are none. It comes before all steps,
// because the types of outputs depend on it.
func readLocks(
	ctx context.Context,
	s *lang.Site,
	from world.Source,
) map[string]detectorLock {
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
	a, ans, err := world.Lock.Ask(ctx, from, world.LockReq{Name: name})
	if err != nil {
		return detectorLock{answer: ans}
	}
	d, err := stages.Description(a.LockEntry)
	if err != nil {
		why := fmt.Sprintf("The description of detector %q in %s cannot be used: %s", name, a.File, err)
		return detectorLock{answer: world.Failure(fault.DetectorFailed, why, "")}
	}

	return detectorLock{answer: ans, describe: &d}
}

// decodeDetectors decodes the detector blocks, and checks their configuration against the detectors' descriptions.
func decodeDetectors(
	s *lang.Site, locks map[string]detectorLock, e *eval.Eval,
) ([]stages.Detector, Findings) {
	var out []stages.Detector
	var found Findings
	for _, name := range sortKeys(s.Detectors) {
		d, more := decodeDetector(name, s.Detectors[name], locks[name], e)
		out = append(out, d)
		found.add(more)
	}

	return out, found
}

func decodeDetector(
	name string, block *lang.Detector, l detectorLock, e *eval.Eval,
) (stages.Detector, Findings) {
	scope := e.Scope("detector." + name)
	b, diags := schema.DetectorBlock.Decode(block.Body, []string{name}, scope)
	found := newFindings(diags...)
	memory, _ := schema.Memory(schema.DetectorMemory.Of(b).V)
	d := stages.Detector{
		Name:     name,
		Range:    block.Range,
		Required: schema.DetectorRequired.Of(b).V,
		Timeout:  schema.ParseDuration(schema.DetectorTimeout.Of(b)),
		Memory:   memory,
		Lock:     l.answer,
		Describe: l.describe,
		At: func(path string) hcl.Range {
			return findConfigRange(block, path, false)
		},
	}
	if d.Describe != nil && block.Body.Attributes[schema.DetectorTimeout.Name] == nil {
		d.Timeout = max(d.Timeout, time.Duration(d.Describe.TimeoutSeconds)*time.Second)
	}
	if a, ok := b.One("allow"); ok {
		d.Allow = world.Grants{
			Devices:      schema.AllowDevices.Of(a).V,
			Read:         schema.AllowRead.Of(a).V,
			Execute:      schema.AllowExecute.Of(a).V,
			Sockets:      schema.AllowSockets.Of(a).V,
			Groups:       schema.AllowGroups.Of(a).V,
			AnyPCIDevice: schema.AllowAnyPCIDevice.Of(a).V,
		}
	}

	values, unknown, diags := collectConfig(b, block)
	found.Report(diags...)
	d.Config = values
	if d.Describe != nil {
		whole, problems := contract.Config(d.Describe.Config, values)
		found.add(reportProblems(d, block, problems, unknown))
		d.Config = dropNulls(whole)
	}
	if e.Checking() {
		found.add(checkWithoutNode(d))
	}

	return d, found
}

// checkWithoutNode reports, in a check, problems of a detector that otherwise only a node shows. With a
// description: a missing grant (on a node, the detector's own stage reports that, where it has something to do).
// Without one: that its configuration is not checked, which is a warning if the lock cannot be used; else it is a
// note, because the lock is on the node with the detector.
func checkWithoutNode(d stages.Detector) (found Findings) {
	summary := fmt.Sprintf("The configuration of detector %q is not checked", d.Name)
	switch {
	case d.Describe != nil:
		return checkConsent(d).join(noteIdleGrant(d))
	case d.Lock.Code() == fault.DetectorFailed:
		found.Warn(
			fault.DetectorDegraded,
			d.Range,
			summary,
			"%s", stages.Sentence(d.Lock.Fault.Why, d.Lock.Fault.Next),
		)

		return found
	case d.Lock.Fault == nil || len(d.Config) == 0:
		return found
	}

	found.Note(
		fault.DetectorDegraded, d.Range, summary,
		"%s The site's use of its facts is not checked either. "+
			"A lock in the site's folder makes both possible on any machine: "+
			"prelet detectors lock --site --config DIR PROGRAM.", stages.Sentence(d.Lock.Fault.Why),
	)

	return found
}

// checkConsent reports a grant that a detector needs and the site does not give: an error if the detector is
// required.
func checkConsent(d stages.Detector) (found Findings) {
	if stages.Ungranted(d.Describe.Needs, d.Allow).Empty() {
		return found
	}

	text := stages.Sentence(stages.NotGranted(*d.Describe, d.Allow))
	if d.Required {
		summary := fmt.Sprintf("Detector %q is required, and lacks a grant", d.Name)
		found.Error(fault.DetectorFailed, d.Range, summary, "%s", text)

		return found
	}
	summary := fmt.Sprintf("Detector %q lacks a grant", d.Name)

	found.Warn(fault.DetectorDegraded, d.Range, summary, "%s", text)

	return found
}

// noteIdleGrant reports any_pci_device for a detector that does not describe it: the grant has no effect.
func noteIdleGrant(d stages.Detector) (found Findings) {
	if !d.Allow.AnyPCIDevice || d.Describe.Needs.AnyPCIDevice || d.Describe.Wants.AnyPCIDevice {
		return found
	}

	found.Note(
		fault.DetectorDegraded, d.Range, fmt.Sprintf("A grant of detector %q has no effect", d.Name),
		"allow { any_pci_device = true } is for a detector that describes it. "+
			"This detector does not, so it may only use the devices of its pci_ids. "+
			"Remove the grant, or ask the vendor.",
	)

	return found
}

// collectConfig returns the values of a detector's config block; unknown has the names of values that are unknown or
// refused.
func collectConfig(b schema.Body, block *lang.Detector) (
	values map[string]any, unknown []string, diags hcl.Diagnostics,
) {
	c, ok := b.One("config")
	if !ok {
		return nil, nil, nil
	}

	values = map[string]any{}
	for _, name := range sortKeys(c.Free) {
		v, d := convertConfigValue(block, name, c.Free[name])
		diags = append(diags, d...)
		if v == nil {
			unknown = append(unknown, name)
		} else {
			values[name] = *v
		}
	}

	return values, unknown, diags
}

// convertConfigValue returns one value as plain Go; nil if the value is secret, of a wrong type, or unknown.
func convertConfigValue(
	block *lang.Detector,
	name string,
	v cty.Value,
) (*any, hcl.Diagnostics) {
	at := findConfigRange(block, name, false)
	if len(value.Secrets(v)) > 0 {
		return nil, hcl.Diagnostics{origin.Error(
			fault.Sensitive, at, fmt.Sprintf("Detector %q cannot take a secret", block.Name),
			"%s: every recording contains a detector's configuration.", name,
		)}
	}

	out, err := value.ToGo(v)
	switch {
	case err == nil:
		return &out, nil
	case !v.IsWhollyKnown():
		return nil, nil
	}

	return nil, hcl.Diagnostics{origin.Error(
		fault.WrongType, at, fmt.Sprintf("Detector %q cannot take %s", block.Name, name), "%s.", err,
	)}
}

// dropNulls removes nulls from a configuration, and returns nil for an empty one. For a detector null is the same
// as unset, so a question does not change when a new version of a detector declares one more attribute.
func dropNulls(config map[string]any) map[string]any {
	maps.DeleteFunc(config, func(_ string, v any) bool {
		return v == nil
	})
	if len(config) == 0 {
		return nil
	}

	return config
}

// reportProblems returns diagnostics at the lines of the site, except for unknown values.
func reportProblems(
	d stages.Detector, block *lang.Detector, problems contract.Problems, unknown []string,
) (found Findings) {
	next := fmt.Sprintf(
		"Version %s of the detector describes its configuration: prelet detectors list --long", d.Describe.Version,
	)
	for _, p := range problems {
		steps, err := contract.ParsePath(p.Path)
		if err == nil && len(steps) > 0 && slices.Contains(unknown, steps[0].Name) {
			continue
		}

		code := fault.WrongType
		at := d.At(p.Path)
		switch p.Summary {
		case contract.UnknownAttribute:
			code = fault.UnknownArgument
			at = findConfigRange(block, p.Path, true)
		case contract.MissingAttribute:
			code = fault.MissingArgument
		}
		path := p.Path
		if path == "" {
			path = "config"
		}
		found.Error(
			code, at, fmt.Sprintf("Detector %q: %s: %s", d.Name, path, p.Summary),
			"%s", stages.Sentence(p.Detail, next),
		)
	}

	return found
}

// findConfigRange returns the place in the site of a path in a detector's configuration: of its value, or with
// isName of its name. Where the site has not written the path, it is the place of the nearest object around it.
func findConfigRange(block *lang.Detector, path string, isName bool) hcl.Range {
	steps, err := contract.ParsePath(path)
	isConfig := func(b *hclsyntax.Block) bool {
		return b.Type == "config"
	}
	i := slices.IndexFunc(block.Body.Blocks, isConfig)
	if err != nil || i < 0 {
		return block.Range
	}

	config := block.Body.Blocks[i]
	if len(steps) == 0 || config.Body.Attributes[steps[0].Name] == nil {
		return config.DefRange()
	}
	a := config.Body.Attributes[steps[0].Name]

	return followSteps(a.Expr, steps[1:], a.NameRange, isName)
}

// followSteps follows steps through literals, and returns the place of the last step that the site has written; at
// is the place of e's name.
func followSteps(
	e hclsyntax.Expression,
	steps []contract.Step,
	at hcl.Range,
	isName bool,
) hcl.Range {
	if len(steps) == 0 {
		if r := e.Range(); r.Filename != "" && !isName && !isLongObject(e) {
			return r
		}
		return at
	}

	switch x := value.Unwrap(e).(type) {
	case *hclsyntax.TupleConsExpr:
		if n := steps[0].Index; n != nil && *n < len(x.Exprs) {
			element := x.Exprs[*n]
			return followSteps(element, steps[1:], element.Range(), isName)
		}
	case *hclsyntax.ObjectConsExpr:
		if item := findItem(x, steps[0]); item != nil {
			return followSteps(item.ValueExpr, steps[1:], item.KeyExpr.Range(), isName)
		}
	}

	return at
}

// findItem returns the item of an object literal that a step names; nil for none.
func findItem(x *hclsyntax.ObjectConsExpr, step contract.Step) *hclsyntax.ObjectConsItem {
	key := step.Name
	if step.Key != nil {
		key = *step.Key
	}
	for n, item := range x.Items {
		if name, ok := value.LiteralText(item.KeyExpr); ok && name == key {
			return &x.Items[n]
		}
	}

	return nil
}

// isLongObject reports whether an expression is an object of several lines, whose place to show is its name.
func isLongObject(e hclsyntax.Expression) bool {
	o, ok := value.Unwrap(e).(*hclsyntax.ObjectConsExpr)

	return ok && o.SrcRange.Start.Line != o.SrcRange.End.Line
}
