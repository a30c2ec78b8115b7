// Package origin contains the places that an item of the plan comes from, and makes HCL diagnostics with a code and a
// place in the site. It has no side effects.
//
// A note is a third severity in addition to HCL's error and warning, for messages such as "the base had 110 pods, the
// site sets 64". With --strict a warning fails, so a warning for something that is right would make --strict useless.
// Notes never fail, and a run at boot does not print them.
package origin

import (
	"encoding/json"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
)

// Kind is the kind of input that an item of the plan is based on.
type Kind string

// The kinds of origins that plan, explain and JSON show.
const (
	Site     Kind = "site"
	Variable Kind = "variable"
	Fact     Kind = "fact"
	Object   Kind = "object"
	Detector Kind = "detector"
	Policy   Kind = "policy"
	Default  Kind = "default"
	Base     Kind = "base"
)

// Role is whether an origin gave the value, or only decided whether the item exists.
type Role string

const (
	Value     Role = "value"
	Condition Role = "condition"
)

// Origin is one input of an item of the plan.
type Origin struct {
	Kind  Kind
	Role  Role
	Ref   string    // label.gpu, var.zone, stage.detect-hw.node, kube-system/kubelet-config …
	Range hcl.Range // the item, attribute or block in the site; zero if there is none
	Text  string    // the source text, or a formula's step in words: "6% of core 1: 60m"
	Scope any       // the eval.Scope of an expression that was evaluated once for each element; nil for others
}

// FindDecider returns the origin that decided a value: the first one with a range in a file. Of a value that a policy
// computes it is the last argument of its stage, such as a floor, which is applied after the policy. It is zero if none
// has a range.
func FindDecider(origins []Origin) (found Origin) {
	isComputed := slices.ContainsFunc(origins, func(o Origin) bool { return o.Kind == Policy })
	for _, o := range origins {
		isArgument := o.Kind == Site && o.Ref == found.Ref
		if o.Range.Filename != "" && (found.Range.Filename == "" || isComputed && isArgument) {
			found = o
		}
	}

	return found
}

// DecidingRange returns the range of the origin that decided a value; the zero range where there is none.
func DecidingRange(origins []Origin) hcl.Range {
	return FindDecider(origins).Range
}

// LastRange returns the last place of the site among origins; the zero range where there is none.
func LastRange(from []Origin) (at hcl.Range) {
	for _, o := range from {
		if o.Range.Filename != "" {
			at = o.Range
		}
	}

	return at
}

// Place returns the start of a range, for messages.
func Place(r hcl.Range) fault.Place {
	return fault.Place{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}

// MarshalJSON returns the format of `plan -o json`.
func (o Origin) MarshalJSON() ([]byte, error) {
	out := struct {
		Kind  Kind       `json:"kind"`
		Role  Role       `json:"role"`
		Ref   string     `json:"ref"`
		Range *JSONRange `json:"range,omitempty"`
		Text  string     `json:"text,omitempty"`
	}{o.Kind, o.Role, o.Ref, RangeJSON(o.Range), o.Text}

	return json.Marshal(out)
}

// JSONRange is a source range in plan JSON.
type JSONRange struct {
	Filename string  `json:"filename"`
	Start    JSONPos `json:"start"`
	End      JSONPos `json:"end"`
}

// JSONPos counts lines and columns from 1, bytes from 0.
type JSONPos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// RangeJSON returns nil for the zero range.
func RangeJSON(r hcl.Range) *JSONRange {
	if r.Filename == "" && r.End.Byte == 0 {
		return nil
	}

	return &JSONRange{r.Filename, JSONPos(r.Start), JSONPos(r.End)}
}
