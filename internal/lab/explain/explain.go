// Package explain explains one item of a plan: its value, the place in the site that gives it, the references behind it
// with their values, and the answers on the tape that these come from. It starts from the origins that the plan has and
// reads values in the record of the run, so the plan needs evaluate.RunInput.Explains. It evaluates nothing, except the
// expression of Evaluate, and has no side effects.
package explain

import (
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Kinds of items. Code needs no plan: it is the page of a message's code.
const (
	Label  = "label"
	Taint  = "taint"
	Flag   = "flag"
	Config = "config"
	File   = "file"
	Code   = "code"

	// Names of the site.
	Var   = "var"
	Local = "local"
	Stage = "stage"
)

// Item is the address of something that can be explained. Kind is "" for a bare word.
type Item struct{ Kind, Name string }

// String returns the address as it is given to the command: label/KEY, file/etc/x.
func (i Item) String() string {
	if i.Kind == "" {
		return i.Name
	}

	return i.Kind + "/" + strings.TrimPrefix(i.Name, "/")
}

// MarshalText returns the address.
func (i Item) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// Explanation is an item with its chain of links.
type Explanation struct {
	Item    Item `json:"item"`
	Present bool `json:"present"`
	// Value is as a site writes it, abbreviated; "(sensitive)" for a secret; "" if the item is absent.
	Value   string          `json:"-"`
	Whole   any             `json:"value"`          // a string, strings, a part of a document; nil if it is absent
	Range   hcl.Range       `json:"-"`              // the expression that gives the value
	Text    string          `json:"text,omitempty"` // the source text of Range
	Type    string          `json:"type,omitempty"` // of a variable, a local or a stage's output; "" for other items
	Origins []origin.Origin `json:"origins"`
	Chain   []Link          `json:"chain"`
	Uses    []eval.Use      `json:"-"` // of a variable, a local or a stage: the places that refer to it
	// registration | restart | reconcile | unit | reader; "" if nothing would take effect
	TakesEffect string   `json:"takes_effect,omitempty"`
	Units       []string `json:"units,omitempty"`   // for "unit": the units that are restarted or reloaded
	Summary     string   `json:"summary,omitempty"` // why the item is absent, in a sentence
}

// Link is one line of the chain, in the order of reading. Depth is its place in the tree.
type Link struct {
	Depth  int         `json:"depth"`
	Kind   origin.Kind `json:"kind"`
	Role   origin.Role `json:"role"`
	Text   string      `json:"text"` // the reference, the expression or the input
	Value  string      `json:"value,omitempty"`
	Note   string      `json:"note,omitempty"` // where the value comes from, or its effect
	Ref    string      `json:"ref,omitempty"`
	Range  hcl.Range   `json:"-"`
	Answer *TapePlace  `json:"answer,omitempty"` // the answer that the value comes from
}

// TapePlace is an answer on the tape, and the place in it.
type TapePlace struct {
	Kind    tape.Kind       `json:"kind"`
	Args    json.RawMessage `json:"args"`
	Pointer string          `json:"pointer,omitempty"` // a JSON pointer into the answer's value
	Fail    string          `json:"fail,omitempty"`    // why the value is missing, as recordings name it
	Stale   int             `json:"stale,omitempty"`   // the generation whose recording has the answer
}

// MarshalJSON returns the format of a link in `explain -o json`.
func (s Link) MarshalJSON() ([]byte, error) {
	type plain Link

	return json.Marshal(struct {
		plain
		Range *origin.JSONRange `json:"range,omitempty"`
	}{plain(s), origin.RangeJSON(s.Range)})
}

// Explain explains an item of a plan. known is false if nothing in the site could give the item; the explanation is
// empty then.
func Explain(p *evaluate.Plan, i Item) (x Explanation, known bool) {
	w := newWalker(p, p.Eval)
	switch i.Kind {
	case Label, Taint, Flag:
		x, known = w.explainEntry(i)
	case Config:
		x, known = w.explainField(i.Name)
	case File:
		x, known = w.explainFile(i.Name)
	case Var, Local, Stage:
		x, known = w.explainName(i)
	}

	x.Item = i
	x.Chain = w.links
	if x.Range.Filename == "" {
		x.Range = origin.DecidingRange(x.Origins)
	}
	x.Text = w.e.Text(x.Range)

	return x, known
}
