// Package explain tells where an item of the plan comes from: it evaluates the expression behind it again, over the
// answers on the plan's tape, and walks it down to variables, facts, objects, files and literals. Each chain ends in a
// byte range of the site and in a named answer. It is pure: it reads a plan and nothing else.
package explain

import (
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
)

// Kinds of items.
const (
	Label  = "label"
	Taint  = "taint"
	Flag   = "flag"
	Config = "config"
	File   = "file"
)

// Item is one thing that can be explained.
type Item struct{ Kind, Name string }

// String is how the item is asked for: label/KEY, file/etc/x.
func (i Item) String() string {
	if i.Kind == "" { // a bare word
		return i.Name
	}
	return i.Kind + "/" + strings.TrimPrefix(i.Name, "/")
}

// Explanation is an item with its chain.
type Explanation struct {
	Item        Item
	Value       string // as a site writes it, abbreviated; "(sensitive)"; "" where there is none
	Whole       any    // the value itself, for programs: a text, a list of texts, a part of a document; nil where it is not there
	Present     bool
	Range       hcl.Range // the expression that gave it
	Text        string    // what is written there
	Origins     []origin.Origin
	Chain       []Step
	TakesEffect string   // registration | restart | reconcile | unit | reader; "" where nothing would take effect
	Units       []string // of "unit": those that are restarted or reloaded
	Summary     string   // of an item that is not there: why, in a sentence
}

// Step is one link of the chain, in the order of reading; Depth is its place in the tree.
type Step struct {
	Depth  int
	Kind   origin.Kind
	Role   origin.Role
	Text   string // what was evaluated or asked
	Value  string // what came out
	Note   string // why, or on what evidence
	Ref    string
	Range  hcl.Range
	Answer *Answer // where the chain ends in an answer
}

// Answer names an answer on the tape, and the place in it that counted.
type Answer struct {
	Kind    world.Kind      `json:"kind"`
	Args    json.RawMessage `json:"args"`
	Pointer string          `json:"pointer,omitempty"` // a JSON pointer into the answer's value
	Fail    string          `json:"fail,omitempty"`    // why there is no value, as recordings call it
	Stale   int             `json:"stale,omitempty"`   // the generation whose recording answered
}

// Explain explains an item of a plan. Known is false where nothing of the site could ever give the item: then
// the explanation is empty.
func Explain(p *boot.Plan, i Item) (x Explanation, known bool) {
	w := &walker{plan: p, e: p.Eval, told: map[string]bool{}}
	if p.Tape != nil {
		w.entries = p.Tape.Entries()
	}
	switch i.Kind {
	case Label:
		x, known = w.label(i.Name)
	case Taint:
		x, known = w.taint(i.Name)
	case Flag:
		x, known = w.flag(i.Name)
	case Config:
		x, known = w.config(i.Name)
	case File:
		x, known = w.file(i.Name)
	}
	x.Item, x.Chain = i, w.steps
	return x, known
}

// MarshalJSON gives the shape that `explain -o json` promises for a step.
func (s Step) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Depth  int               `json:"depth"`
		Kind   origin.Kind       `json:"kind"`
		Role   origin.Role       `json:"role"`
		Text   string            `json:"text"`
		Value  string            `json:"value,omitempty"`
		Note   string            `json:"note,omitempty"`
		Ref    string            `json:"ref,omitempty"`
		Range  *origin.JSONRange `json:"range,omitempty"`
		Answer *Answer           `json:"answer,omitempty"`
	}{s.Depth, s.Kind, s.Role, s.Text, s.Value, s.Note, s.Ref, origin.RangeJSON(s.Range), s.Answer})
}
