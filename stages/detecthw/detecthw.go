// Package detecthw is the stage that detects the hardware: the built-in facts, and the reports of vendor detectors.
// It asks for the facts and the detectors through the tape and merges the answers. It must not read /sys or start a
// detector itself.
package detecthw

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var (
	detectorsAttr = schema.Attr[[]string]{
		Name:        "detectors",
		Type:        cty.List(cty.String),
		DefaultText: "all that the site declares",
		Doc:         "Which of the site's detectors are asked.",
	}
	linksAttr = schema.Attr[[]string]{
		Name:  "links",
		Type:  cty.List(cty.String),
		Check: checkLinks,
		Doc:   "Interfaces whose link must be up: a link that is still training is not \"no link\".",
	}
	driversAttr = schema.Attr[[]string]{
		Name:  "drivers",
		Type:  cty.List(cty.String),
		Check: checkDrivers,
		Doc:   "Drivers that must be bound to a device.",
	}
	unitsAttr = schema.Attr[[]string]{
		Name:  "units",
		Type:  cty.List(cty.String),
		Check: checkUnits,
		Doc: "Units of systemd that must run or have ended without a failure, such as " +
			"`nvidia-mig-parted.service`. The fact `units` has the state of each. One that has failed, is masked or " +
			"missing, or is ordered after prelet is not waited for, a disabled one for a tenth of `timeout`.",
	}
	waitFailureAttr = schema.Attr[string]{
		Name:    "on_failure",
		Default: "continue",
		OneOf:   []string{"continue", "fail"},
		Doc: "What happens where something did not come: detection continues and the boot is degraded, " +
			"or the stage fails.",
	}
	fabricAttr = schema.Attr[string]{
		Name:  "fabric",
		OneOf: []string{fabricCompleted},
		Doc: "The state of the NVLink fabric, which a detector reports as its fact `fabric_state`: it is asked again " +
			"until the state is `completed`, `not-supported` or `failed`. GPUs without a fabric are not waited for.",
	}
	timeoutAttr = schema.Attr[string]{
		Name:    "timeout",
		Default: "30s",
		Check:   schema.Duration,
		Doc: "How long to wait for units, then for links and drivers, and then for the fabric, as long for each. " +
			"The `timeout` of the stage must be longer.",
	}
	waitBlock = schema.Block{
		Type:   "wait",
		Max:    1,
		Doc:    "What to wait for before detection.",
		Fields: []schema.Field{unitsAttr, linksAttr, driversAttr, fabricAttr, timeoutAttr, waitFailureAttr},
	}
)

// checkLinks refuses what no interface can be called (dev_valid_name in the kernel's net/core/dev.c).
func checkLinks(names []string) error {
	for _, name := range names {
		if name == "" || len(name) > 15 || strings.ContainsAny(name, ":/ \t\n") {
			return fmt.Errorf("%q is not the name of an interface; `ip link` lists them, such as \"eth0\"", name)
		}
	}

	return nil
}

// lateTargets are reached after the kubelet.
var lateTargets = []string{"boot-complete.target", "default.target", "graphical.target", "multi-user.target"}

// unitTypes are the types of systemd's units that can be done.
var unitTypes = []string{"service", "target", "mount", "socket", "device", "path", "swap", "automount", "timer",
	"slice", "scope"}

// checkDrivers refuses files of modules, which are never bound to a device.
func checkDrivers(names []string) error {
	for _, name := range names {
		if stem, _, isFile := strings.Cut(path.Base(name), ".ko"); isFile || strings.Contains(name, "/") {
			return fmt.Errorf("%q is a file, and no driver has this name: did you mean %q?", name, stem)
		}
	}

	return nil
}

// checkUnits refuses names that systemd has no unit for, and units that start only after prelet's own: these can never
// be done before the end of the wait.
func checkUnits(names []string) error {
	for _, name := range names {
		stem, suffix := name, ""
		if dot := strings.LastIndex(name, "."); dot >= 0 {
			stem, suffix = name[:dot], name[dot+1:]
		}
		switch {
		case name == "" || strings.ContainsAny(name, " /*?\t\n"):
			return fmt.Errorf("%q is not the name of a unit: write one as systemctl list-units shows it, such as "+
				"\"nvidia-mig-parted.service\"", name)
		case stem == "" || !slices.Contains(unitTypes, suffix):
			if err := checkUnits([]string{name + ".service"}); err != nil {
				return err
			}
			meant := name + ".service"
			if near := texts.Nearest(suffix, unitTypes); near != "" {
				meant = stem + "." + near
			}
			return fmt.Errorf("%q has no suffix of a unit, so systemd has no such unit: did you mean %q?", name, meant)
		case strings.HasSuffix(stem, "@"):
			return fmt.Errorf("%q is a template, which never starts: name one of its units, such as \"%s1.%s\"",
				name, stem, suffix)
		case strings.HasPrefix(stem, "prelet") && suffix == "service" || name == "prelet-gate.target":
			return fmt.Errorf("%q is a unit of prelet, and this run would wait for itself: remove it", name)
		case slices.Contains(lateTargets, name):
			return fmt.Errorf("%q is reached only after the kubelet and this run, which would wait for itself: "+
				"name the service that you need", name)
		}
	}

	return nil
}

// Stage implements stages.Gatherer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{
		Phase:       schema.Gather,
		Singleton:   true,
		Timeout:     90 * time.Second,
		TimeoutCode: fault.HardwareFailed,
		Block: schema.Block{
			Type: stages.DetectHW,
			Doc: "Detects the hardware. An unknown fact is null, and `unknown` has the reason; " +
				"lists are sorted by PCI address, then name.",
			Fields: []schema.Field{detectorsAttr},
			Blocks: []schema.Block{waitBlock},
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(d stages.Declared) cty.Type {
	detectors := map[string]cty.Type{}
	for name, description := range d.Detectors {
		detectors[name] = detectorType(description)
	}

	out := map[string]cty.Type{}
	for name, t := range factsType().AttributeTypes() {
		out[name] = t
	}
	out["gpus"] = out["accelerators"]
	out["detectors"] = cty.Object(detectors)

	return cty.Object(out)
}

// Check implements stages.Checker.
func (Stage) Check(cfg schema.Body, in stages.Inputs) hcl.Diagnostics {
	return append(checkDetectors(cfg, in.Detectors), checkWait(cfg, in.Unit)...)
}

// checkWait refuses a wait for the kubelet's unit, which starts after prelet, and warns of a wait for nothing.
func checkWait(cfg schema.Body, kubelet string) (diags hcl.Diagnostics) {
	wait, ok := cfg.One(waitBlock.Type)
	if at, waits := waitRange(cfg, "unit "+kubelet); waits {
		diags = append(diags, origin.Error(fault.WrongType, at, kubelet+" is the kubelet's unit",
			"It starts only after this run, which would wait for itself. Remove it."))
	}
	isNothing := ok && unitsAttr.Of(wait).Null() && linksAttr.Of(wait).Null() && driversAttr.Of(wait).Null() &&
		fabricAttr.Of(wait).Null()
	if isNothing {
		diags = append(diags, origin.Warning(fault.MissingArgument, wait.Range, "This block waits for nothing",
			"Give it units, links, drivers or fabric, or remove it."))
	}

	return diags
}

// checkDetectors refuses detectors that the site does not declare.
func checkDetectors(cfg schema.Body, declared []string) (diags hcl.Diagnostics) {
	chosen := detectorsAttr.Of(cfg)
	for i, name := range chosen.V {
		if !slices.Contains(declared, name) {
			diags = append(diags, origin.Error(fault.Reference, chosen.ItemRange(strconv.Itoa(i)),
				fmt.Sprintf("Unknown detector %q", name),
				"Declare it: detector %q {}. %s", name, schema.Suggest(name, declared)))
		}
	}

	return diags
}

// Gather implements stages.Gatherer.
func (s Stage) Gather(
	ctx context.Context,
	cfg schema.Body,
	env stages.Env,
	r tape.Source,
) (stages.Output, hcl.Diagnostics) {
	var names []string
	for _, d := range env.Detectors {
		names = append(names, d.Name)
	}

	diags := checkWait(cfg, env.Unit)
	if diags.HasErrors() {
		return stages.Output{}, diags
	}

	facts, ans, err := tape.Hardware.Ask(ctx, r, factsRequest(cfg))
	switch {
	case ans.Code() == fault.Unread:
		return stages.Output{}, hcl.Diagnostics{origin.NotRead(cfg.Range, "the hardware")}
	case err != nil:
		failure := ans.Fault.Raise(fault.HardwareFailed, "The hardware cannot be read")

		return stages.Output{}, hcl.Diagnostics{stages.Diagnose(cfg.Range, failure)}
	}

	diags = append(append(diags, warnOfUnknown(cfg, facts)...), warnOfHugePages(cfg, facts)...)

	chosen := detectorsAttr.Of(cfg)
	isChosen := func(name string) bool {
		return !chosen.Set() || slices.Contains(chosen.V, name)
	}
	detections := askAll(ctx, env.Detectors, isChosen, facts, fabricWait(cfg), r)
	diags = append(diags, warnOfFabric(cfg, detections)...)
	merge(&facts, detections)

	out, diag := factsOutput(cfg, facts, ans.Withheld, env.Shared)
	if diag != nil {
		return stages.Output{}, append(diags, diag)
	}

	labels := recommended(detections) // before the diagnostics are read: it adds to them
	detectors := map[string]cty.Value{}
	for _, d := range detections {
		detectors[d.Name] = d.value()
		diags = append(diags, d.Diags...)
	}
	out["detectors"] = cty.ObjectVal(detectors)
	diags = append(diags, checkDetectors(cfg, names)...)

	return stages.Output{
		Value:    cty.ObjectVal(out),
		Readings: stages.Readings{Facts: &facts, Recommended: labels},
	}, diags
}

func factsRequest(cfg schema.Body) tape.HardwareReq {
	wait, ok := cfg.One(waitBlock.Type)
	if !ok {
		return tape.HardwareReq{}
	}

	return tape.HardwareReq{
		WaitLinks:   linksAttr.Of(wait).V,
		WaitDrivers: driversAttr.Of(wait).V,
		WaitUnits:   unitsAttr.Of(wait).V,
		WaitMillis:  schema.ParseDuration(timeoutAttr.Of(wait)).Milliseconds(),
	}
}

// warnOfUnknown reports the facts that should be readable and are not.
func warnOfUnknown(cfg schema.Body, facts tape.Facts) (diags hcl.Diagnostics) {
	for _, u := range facts.Unknown {
		if !u.Degraded {
			continue
		}

		fact := u.Fact
		if name, isUnit := strings.CutPrefix(fact, "units["); isUnit { // systemd does not answer
			fact = "unit " + strings.TrimSuffix(name, "]")
		}
		if at, ok := waitRange(cfg, fact); ok && u.Why != "" {
			summary := "Timed out waiting for " + fact
			if unit, isUnit := strings.CutPrefix(fact, "unit "); isUnit {
				summary = unit + " is not done"
			}
			diags = append(diags, reportWait(cfg, at, summary, origin.Capitalize(u.Why)))
			continue
		}

		diags = append(diags, origin.Warning(fault.HardwareDegraded, cfg.Range,
			"Fact "+u.Fact+" could not be read", "It is unknown: %s.", u.Why))
	}

	return diags
}

// reportWait reports something that did not come: as an error, if the site wants that.
func reportWait(cfg schema.Body, at hcl.Range, summary, why string) *hcl.Diagnostic {
	wait, _ := cfg.One(waitBlock.Type)
	if waitFailureAttr.Of(wait).V == "fail" {
		return origin.Error(fault.HardwareFailed, at, summary, "%s", stages.Sentence(why))
	}

	return origin.Warning(fault.HardwareDegraded, at, summary, "%s",
		stages.Sentence(why, "Detection continued without it"))
}

// waitRange returns where the site waits for an unknown fact, which the facts call "link ib0", "driver nvidia" or "unit
// a.service".
func waitRange(cfg schema.Body, fact string) (hcl.Range, bool) {
	wait, ok := cfg.One(waitBlock.Type)
	if !ok {
		return hcl.Range{}, false
	}

	kind, name, _ := strings.Cut(fact, " ")
	attributes := map[string]schema.Value[[]string]{
		"link":   linksAttr.Of(wait),
		"driver": driversAttr.Of(wait),
		"unit":   unitsAttr.Of(wait),
	}
	attr, ok := attributes[kind]
	i := slices.Index(attr.V, name)
	if !ok || i < 0 {
		return hcl.Range{}, false
	}

	return attr.ItemRange(strconv.Itoa(i)), true
}

// shareFacts returns the value of facts, with parts of that of the machine before: machines of one kind differ in few.
func shareFacts(facts tape.Facts, shared *sync.Map) (cty.Value, error) {
	if shared == nil {
		return factsValue(facts, nil)
	}

	type key struct{}
	last, _ := shared.Load(key{})
	before, _ := last.(*madeFacts)
	v, err := factsValue(facts, before)
	if err == nil {
		shared.Store(key{}, &madeFacts{facts, v})
	}

	return v, err
}

// factsOutput returns the facts as attributes of the stage's output, those of detectors left out.
func factsOutput(
	cfg schema.Body,
	facts tape.Facts,
	withheld []string,
	shared *sync.Map,
) (map[string]cty.Value, *hcl.Diagnostic) {
	v, err := shareFacts(facts, shared)
	if err != nil {
		return nil, origin.Error(
			fault.HardwareFailed,
			cfg.Range,
			"The facts cannot be understood",
			"%s.",
			err,
		)
	}

	if facts.DefaultRoute == nil { // the recording is older than these facts
		withheld = append(slices.Clip(withheld), "/default_route", "/cpu/architecture")
		for name := range facts.Interfaces {
			withheld = append(withheld, tape.Pointer("interfaces", name, "addresses"))
		}
	}

	if facts.Memory.HugePagesAsked == nil {
		withheld = append(slices.Clip(withheld), "/memory/hugepages_asked")
	}

	v, err = withhold(v, "facts", withheld)
	if err != nil {
		return nil, origin.Error(
			fault.RecordingInvalid,
			cfg.Range,
			"The recording withholds an unknown fact",
			"The recording cannot be used: %s.",
			err,
		)
	}

	out := v.AsValueMap()
	if facts.BlockDevices == nil { // the recording is older than these facts
		for _, name := range []string{"bios", "chassis", "baseboard", "block_devices"} {
			out[name] = cty.UnknownVal(out[name].Type())
		}
	}
	out["gpus"] = selectGPUs(facts, out["accelerators"])

	return out, nil
}

func selectGPUs(facts tape.Facts, accelerators cty.Value) cty.Value {
	if !accelerators.IsKnown() {
		return accelerators
	}

	var out []cty.Value
	for i, a := range facts.Accelerators {
		if a.Kind == "gpu" {
			out = append(out, accelerators.Index(cty.NumberIntVal(int64(i))))
		}
	}
	if len(out) == 0 {
		return cty.ListValEmpty(accelerators.Type().ElementType())
	}

	return cty.ListVal(out)
}
