package testfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// decoder turns the body of a test file into runs.
type decoder struct {
	file *Suite
	origin.Collector
}

func (d *decoder) decode(body *hclsyntax.Body) {
	b, diags := fileBlock.Decode(body, nil, newEvaluator(d.file))
	d.Diags = diags

	shared := map[string]Literal{}
	if all, isWritten := b.One(variablesBlock.Type); isWritten {
		at := findVariables(body)
		for name, v := range all.Free {
			shared[name] = Literal{Value: v, At: at[name]}
		}
	}

	runs := b.Blocks[runBlock.Type]
	if len(runs) == 0 && !d.Diags.HasErrors() {
		d.Error(fault.MissingArgument, body.MissingItemRange(), "A test file without a run",
			"Write at least one: run \"NAME\" { hardware = \"…\" }.")
	}
	for _, r := range runs {
		d.file.Runs = append(d.file.Runs, d.decodeRun(r, shared))
	}
}

// findVariables returns the places of the values in the variables block, by name.
func findVariables(body *hclsyntax.Body) map[string]hcl.Range {
	out := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		if b.Type != variablesBlock.Type {
			continue
		}
		for name, a := range b.Body.Attributes {
			out[name] = a.Expr.Range()
		}
	}

	return out
}

func (d *decoder) decodeRun(b schema.Body, shared map[string]Literal) *Run {
	r := &Run{
		Name:     b.Labels[0],
		File:     d.file,
		At:       b.Range,
		Root:     rootAttr.Of(b),
		Without:  withoutAttr.Of(b),
		Kubelet:  kubeletAttr.Of(b),
		Snapshot: snapshotAttr.Of(b),
		ExpectAt: expectAttr.Of(b).Range,
	}
	if strings.TrimSpace(r.Name) == "" {
		d.Error(fault.UnknownBlock, b.Range, "A run without a name", "Write run \"NAME\" { … }.")
	}

	d.decodeMachines(r, b)
	d.decodeObjects(r, objectsAttr.Of(b))
	r.Variables = d.decodeVariables(variablesAttr.Of(b), shared)
	r.Detectors = d.decodeDetectors(detectorsAttr.Of(b))
	for _, code := range expectAttr.Of(b).V {
		r.Expected = append(r.Expected, fault.Code(code))
	}
	for _, a := range b.Blocks[assertBlock.Type] {
		if x := conditionAttr.Of(a).Expr; x != nil {
			replaceOperators(x)
		}
		r.Asserts = append(r.Asserts, Assert{
			Condition: conditionAttr.Of(a).Expr,
			Message:   messageAttr.Of(a).Expr,
			At:        a.Range,
		})
	}
	d.checkOutcome(r)

	return r
}

// decodeMachines reads hardware or from, of which there must be exactly one.
func (d *decoder) decodeMachines(r *Run, b schema.Body) {
	hardware := hardwareAttr.Of(b)
	from := fromAttr.Of(b)
	isHardware := hardware.Expr != nil && !hardware.Cty.IsNull()
	r.IsFrom = from.Expr != nil && !from.Cty.IsNull()
	switch {
	case isHardware && r.IsFrom:
		d.Error(fault.Conflict, from.Range, "hardware and from exclude each other",
			"A recording has the hardware of its machine. Remove one of them, or write two runs.")
	case !isHardware && !r.IsFrom:
		d.Error(fault.MissingArgument, b.Range, "A run without a machine",
			"Write hardware = \"PATH\" for a recorded machine, or from = \"PATH\" for a recording. "+
				"Both may be globs, and are relative to this file.")
	case r.IsFrom && r.Root.Set():
		d.Error(fault.Conflict, r.Root.Range, "from and root exclude each other",
			"A recording has the files of its machine. Remove root.")
	case isHardware:
		r.Machines = hardware
	default:
		r.Machines = from
	}
}

// checkOutcome refuses a run that expects an error and also something of the plan that it then does not have.
func (d *decoder) checkOutcome(r *Run) {
	if len(r.Expected) == 0 {
		return
	}
	if len(r.Asserts) > 0 {
		d.Error(fault.Conflict, r.Asserts[0].At, "expect_error and assert exclude each other",
			"A run that fails has no finished node. Remove one of them, or write two runs.")
	}
	if r.Snapshot.V != "" {
		d.Error(fault.Conflict, r.Snapshot.Range, "expect_error and snapshot exclude each other",
			"A run that fails has no finished node. Remove one of them, or write two runs.")
	}
}

// items returns the items of an object or a map, which an attribute must be, in the order of their names.
func (d *decoder) items(
	v schema.Value[cty.Value], name, usage string,
) (keys []string, all map[string]cty.Value) {
	if !v.Set() {
		return nil, nil
	}
	if t := v.Cty.Type(); !t.IsObjectType() && !t.IsMapType() {
		d.Error(fault.WrongType, v.Range, "Wrong type for "+name,
			"An object is needed, and this is %s. Write %s.", schema.Article(t), usage)
		return nil, nil
	}

	all = v.Cty.AsValueMap()

	return slices.Sorted(maps.Keys(all)), all
}

const caKey = "ca.crt"

func (d *decoder) decodeObjects(r *Run, v schema.Value[cty.Value]) {
	r.ObjectsAt = v.Range
	r.HasObjects = v.Set()
	if v.Set() && value.IsText(v.Cty) {
		r.ObjectsFolder = v.Cty.AsString()
		if r.ObjectsFolder == "" {
			d.Error(fault.WrongType, v.Range, "Wrong value for objects", "The path of the folder is empty.")
		}
		return
	}

	const usage = `{ "kube-system/kubelet-config" = { kubelet = file("…") } }, or the path of a folder`
	keys, all := d.items(v, "objects", usage)
	r.Objects = map[string]Data{}
	for _, key := range keys {
		at := v.ItemRange(key)
		if key == caKey {
			if !value.IsText(all[key]) {
				d.Error(fault.WrongType, at, "Wrong type for ca.crt", "A text with the CA in PEM form is needed.")
				continue
			}
			r.CA = all[key].AsString()
			continue
		}

		namespace, name, _ := strings.Cut(key, "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			d.Error(fault.WrongType, at, fmt.Sprintf("Invalid name of an object %q", key),
				"Write NAMESPACE/NAME of a ConfigMap, or ca.crt for the CA of the cluster.")
			continue
		}
		data, err := textMap(all[key])
		if err != nil {
			d.Error(fault.WrongType, at, "Wrong type for object "+key,
				"The data of a ConfigMap are texts by key: %s.", err)
			continue
		}
		r.Objects[key] = data
	}
}

// textMap returns a map of texts, as strictly as the API server does; null is an empty one.
func textMap(v cty.Value) (map[string]string, error) {
	if v.IsNull() {
		return map[string]string{}, nil
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return nil, fmt.Errorf("this is %s", schema.Article(v.Type()))
	}

	out := map[string]string{}
	for key, text := range v.AsValueMap() {
		if !value.IsText(text) {
			return nil, fmt.Errorf("%s is %s, write it in double quotes", key, schema.Article(text.Type()))
		}
		out[key] = text.AsString()
	}

	return out, nil
}

// decodeVariables adds the variables of a run to those of its file.
func (d *decoder) decodeVariables(
	v schema.Value[cty.Value], shared map[string]Literal,
) map[string]Literal {
	out := maps.Clone(shared)
	keys, all := d.items(v, "variables", `{ zone = "az1" }`)
	for _, name := range keys {
		out[name] = Literal{Value: all[name], At: v.ItemRange(name)}
	}
	for name, l := range out {
		if l.Value.IsWhollyKnown() && l.Value.IsNull() {
			delete(out, name)
		}
	}

	return out
}

func (d *decoder) decodeDetectors(v schema.Value[cty.Value]) map[string]Detector {
	out := map[string]Detector{}
	keys, all := d.items(v, "detectors", `{ NAME = { state = "failed" } }`)
	for _, name := range keys {
		at := v.ItemRange(name)
		one, why := decodeDetector(all[name])
		if why != "" {
			d.Error(fault.WrongType, at, fmt.Sprintf("Wrong value for detector %q", name), "%s", why)
			continue
		}
		one.At = at
		out[name] = one
	}

	return out
}

// decodeDetector returns the reply of a detector, or why there is none, as sentences.
func decodeDetector(v cty.Value) (out Detector, why string) {
	if !v.Type().IsObjectType() || v.IsNull() {
		return out, "An object is needed: { state = \"failed\" }, or { facts = { … } }."
	}
	fields := v.AsValueMap()
	known := []string{"state", "facts", "attributes", "labels", "devices"}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			return out, fmt.Sprintf("It has no argument %q. %s", name, schema.Suggest(name, known))
		}
	}

	out.State = "ok"
	if state, isSet := fields["state"]; isSet {
		if !value.IsText(state) || !slices.Contains(states, state.AsString()) {
			given := ""
			if value.IsText(state) {
				given = state.AsString()
			}
			return out, "The state is not valid. " + schema.Suggest(given, states)
		}
		out.State = state.AsString()
	}
	delete(fields, "state")
	if out.State != "ok" && len(fields) > 0 {
		return out, fmt.Sprintf("A detector in the state %q reports nothing: remove %s.",
			out.State, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}

	reply, err := decodeReply(fields)
	if err != nil {
		return out, stages.Sentence("It does not have the form of a reply: "+err.Error(), "")
	}
	out.Reply = reply

	return out, ""
}

// decodeReply returns the reply of a detector. Its fields have the names of the detector's own reply.
func decodeReply(fields map[string]cty.Value) (tape.DetectorAns, error) {
	reply := tape.DetectorAns{
		Version:    "0.0.0-test",
		Attributes: map[string]string{},
		Labels:     map[string]string{},
		Warnings:   []string{},
	}
	if len(fields) == 0 {
		return reply, nil
	}

	plain, err := codec.ToGo(cty.ObjectVal(fields))
	if err != nil {
		return reply, err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return reply, err
	}
	err = codec.DecodeStrict(text, &reply, nil)
	var at *codec.PlaceError // of a text that the file does not have
	if errors.As(err, &at) {
		err = errors.New(strings.TrimRight(at.Why+". "+at.Next, ". "))
	}

	return reply, err
}
