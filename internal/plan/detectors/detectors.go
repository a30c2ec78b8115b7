// Package detectors reads the detector blocks of a site: with the locks of the detectors, which describe them, it
// decodes their configuration and checks it. It runs no detector.
package detectors

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
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Lock is the lock of a detector, which describes it without running it.
type Lock struct {
	answer   tape.Answer           // to the question for the lock
	describe *contract.Description // nil: not known
}

// Locks are the locks of the detectors of a site, by name.
type Locks map[string]Lock

// ReadLocks asks for the locks of the site's detectors; without a source there are none. It comes before all steps,
// because the types of outputs depend on it.
func ReadLocks(ctx context.Context, s *lang.Site, from tape.Source) Locks {
	locks := Locks{}
	for _, name := range s.DetectorNames() {
		locks[name] = readLock(ctx, name, from)
	}

	return locks
}

func readLock(ctx context.Context, name string, from tape.Source) Lock {
	if from == nil {
		return Lock{}
	}
	a, ans, err := tape.Lock.Ask(ctx, from, tape.LockReq{Name: name})
	if err != nil {
		return Lock{answer: ans}
	}
	d, err := stages.Description(a.LockEntry)
	if err != nil {
		why := fmt.Sprintf("The description of detector %q in %s cannot be used: %s", name, a.File, err)
		return Lock{answer: tape.Failure(fault.DetectorFailed, why, "")}
	}

	return Lock{answer: ans, describe: &d}
}

// Describe returns the descriptions of the detectors by name, nil where one is not known.
func (locks Locks) Describe() map[string]*contract.Description {
	out := map[string]*contract.Description{}
	for name, l := range locks {
		out[name] = l.describe
	}

	return out
}

// Decode decodes the detector blocks, and checks their configuration against the detectors' descriptions.
func (locks Locks) Decode(s *lang.Site, e *eval.Eval) ([]stages.Detector, hcl.Diagnostics) {
	var out []stages.Detector
	var found reporter
	for _, name := range s.DetectorNames() {
		out = append(out, found.decode(name, s.Detectors[name], locks[name], e))
	}

	return out, found.Diags
}

// reporter checks detectors, and collects the findings.
type reporter struct{ origin.Collector }

func (found *reporter) decode(name string, block *lang.Detector, l Lock, e *eval.Eval) stages.Detector {
	scope := e.Scope("detector." + name)
	b, diags := schema.DetectorBlock.Decode(block.Body, []string{name}, scope)
	found.Report(diags...)
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
		d.Allow = tape.Grants{
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
		found.reportProblems(d, block, problems, unknown)
		d.Config = dropNulls(whole)
	}
	if e.Checking() {
		found.checkWithoutNode(d)
	}

	return d
}

// checkWithoutNode reports, in a check, problems of a detector that otherwise only a node shows. With a
// description: a missing grant (on a node, the detector's own stage reports that, where it has something to do).
// Without one: that its configuration is not checked, which is a warning if the lock cannot be used; else it is a
// note, because the lock is on the node with the detector.
func (found *reporter) checkWithoutNode(d stages.Detector) {
	summary := fmt.Sprintf("The configuration of detector %q is not checked", d.Name)
	switch {
	case d.Describe != nil:
		found.checkConsent(d)
		found.noteIdleGrant(d)
	case d.Lock.Code() == fault.DetectorFailed:
		found.Warn(
			fault.DetectorDegraded,
			d.Range,
			summary,
			"%s", stages.Sentence(d.Lock.Fault.Why, d.Lock.Fault.Next),
		)
	case d.Lock.Fault != nil && len(d.Config) > 0:
		found.Note(
			fault.DetectorDegraded, d.Range, summary,
			"%s The site's use of its facts is not checked either. "+
				"A lock in the site's folder makes both possible on any machine: "+
				"prelet detectors lock --site --config DIR PROGRAM.", stages.Sentence(d.Lock.Fault.Why),
		)
	}
}

// checkConsent reports a grant that a detector needs and the site does not give: an error if the detector is
// required.
func (found *reporter) checkConsent(d stages.Detector) {
	if stages.Ungranted(d.Describe.Needs, d.Allow).Empty() {
		return
	}

	report, code, summary := found.Warn, fault.DetectorDegraded, "Detector %q lacks a grant"
	if d.Required {
		report, code, summary = found.Error, fault.DetectorFailed, "Detector %q is required, and lacks a grant"
	}
	text := stages.Sentence(stages.NotGranted(*d.Describe, d.Allow))
	report(code, d.Range, fmt.Sprintf(summary, d.Name), "%s", text)
}

// noteIdleGrant reports any_pci_device for a detector that does not describe it: the grant has no effect.
func (found *reporter) noteIdleGrant(d stages.Detector) {
	if !d.Allow.AnyPCIDevice || d.Describe.Needs.AnyPCIDevice || d.Describe.Wants.AnyPCIDevice {
		return
	}

	found.Note(
		fault.DetectorDegraded, d.Range, fmt.Sprintf("A grant of detector %q has no effect", d.Name),
		"allow { any_pci_device = true } is for a detector that describes it. "+
			"This detector does not, so it may only use the devices of its pci_ids. "+
			"Remove the grant, or ask the vendor.",
	)
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
	for _, name := range slices.Sorted(maps.Keys(c.Free)) {
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
	if len(secret.Names(v)) > 0 {
		return nil, hcl.Diagnostics{origin.Error(
			fault.Sensitive, at, fmt.Sprintf("Detector %q cannot take a secret", block.Name),
			"%s: every recording contains a detector's configuration.", name,
		)}
	}

	out, err := codec.ToGo(v)
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
func (found *reporter) reportProblems(
	d stages.Detector, block *lang.Detector, problems contract.Problems, unknown []string,
) {
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
