// Package origin says where an item of the plan came from, and makes the diagnostics of HCL, with their code and their
// place in the site. It touches nothing outside.
package origin

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
)

// Kind is what an item of the plan ultimately rests on.
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

// Role says whether an origin gave the value, or only decided that there is one.
type Role string

// The two roles.
const (
	Value     Role = "value"
	Condition Role = "condition"
)

// Origin is one place that an item of the plan came from.
type Origin struct {
	Kind  Kind
	Role  Role
	Ref   string    // label.gpu, var.zone, stage.detect-hw.node, kube-system/kubelet-config …
	Range hcl.Range // the item, attribute or block in the site; zero where there is none
	Text  string    // what is written there, or a formula's step in words: "6% of core 1: 60m"
}

// MarshalJSON gives the shape that `plan -o json` promises.
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

// JSONRange is a source range as plan JSON writes it.
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

// RangeJSON is nil for the zero range.
func RangeJSON(r hcl.Range) *JSONRange {
	if r.Filename == "" && r.End.Byte == 0 {
		return nil
	}

	return &JSONRange{r.Filename, JSONPos(r.Start), JSONPos(r.End)}
}
