// Package compare compares two states of a node, each of a plan, of a generation or of a disk: the differences, and for
// generations the inputs of their runs that caused them. It has no side effects.
package compare

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// Generation has the kept files of one generation. What could not be read is nil, and Problems name it.
type Generation struct {
	Number int
	Time   time.Time
	NodeState
	Recording *tape.Recording
	Run       *evaluate.Plan // over the recording: for the causes of single items
	Rollback  string         // of a rollback: its name as an InputChange; "" for a run
	Problems  []string
}

// Difference has the differences between two generations: the document of `history diff -o json`.
type Difference struct {
	FormatVersion int            `json:"format_version"`
	From          int            `json:"from"`
	To            int            `json:"to"`
	Changes       []CausedChange `json:"changes"`
	Inputs        []InputChange  `json:"causes"` // the answers that the runs read, and the site
	Problems      []string       `json:"problems"`

	FromTime time.Time `json:"-"`
	ToTime   time.Time `json:"-"`
}

// CausedChange is a change with the names of inputs.
type CausedChange struct {
	NodeChange
	Because []string `json:"because"`           // that it depends on; empty where that is not known
	Perhaps []string `json:"perhaps,omitempty"` // that may have caused it, which nothing shows
}

// Value is a value as JSON, or words; "" is none, which is null in a document.
type Value string

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v == "":
		return []byte("null"), nil
	case json.Valid([]byte(v)):
		return []byte(v), nil
	}

	return json.Marshal(string(v))
}

// Generations compares two generations, the earlier one first.
func Generations(a, b Generation) Difference {
	d := Difference{
		FormatVersion: 2,
		From:          a.Number,
		To:            b.Number,
		Changes:       []CausedChange{},
		Inputs:        []InputChange{},
		Problems:      slices.Concat([]string{}, a.Problems, b.Problems),
		FromTime:      a.Time,
		ToTime:        b.Time,
	}
	if a.Recording != nil && b.Recording != nil {
		d.Inputs = findInputs(a, b)
	}
	c := causes{before: a, after: b, inputs: d.Inputs}
	later := b
	if a.Number > b.Number {
		later = a
	}

	for _, one := range Changes(a.NodeState, b.NodeState) {
		change := CausedChange{NodeChange: one, Because: []string{later.Rollback}}
		if later.Rollback == "" {
			c.explain(&change, d.Changes)
		}
		d.Changes = append(d.Changes, change)
	}
	if later.Rollback != "" && len(d.Changes) > 0 { // no input changed for it
		d.Inputs = []InputChange{{Name: later.Rollback, Kind: "rollback", Details: []Detail{}}}
	}

	return d
}

// union returns the keys of two maps, sorted.
func union[K cmp.Ordered, V any](a, b map[K]V) []K {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)

	return slices.Compact(all)
}
