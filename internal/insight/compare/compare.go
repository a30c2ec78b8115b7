// Package compare compares two generations of a node: the items and files of the node that they describe, and what
// their runs read. It knows only what its caller collected, and has no side effects.
package compare

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// Generation has the kept files of one generation. What could not be read is nil, and Problems name it.
type Generation struct {
	Number    int
	Time      time.Time
	Files     []File
	Node      *node.Stored
	Recording *world.Recording
	Run       *boot.Plan // over the recording: for the causes of single items
	Rollback  string     // of a rollback: its name as an Input; "" for a run
	Problems  []string
	// Overwritten are files that somebody had changed since the generation before, and that this one wrote over.
	Overwritten []string
}

// File is a file as a generation wrote or left it. A file without content that is not hidden could not be read.
type File struct {
	Path      string
	Left      string // of a file that the generation does not manage: restore | keep | release, as FileChange.Action
	IsDir     bool
	Mode      uint32
	UID, GID  int
	Content   []byte
	SHA256    string
	Sensitive bool // it contains a secret
	Private   bool // not every user may read it
}

// Difference is what differs between two generations: the document of `history diff -o json`.
type Difference struct {
	FormatVersion int          `json:"format_version"`
	From          int          `json:"from"`
	To            int          `json:"to"`
	Items         []ItemChange `json:"items"`
	Files         []FileChange `json:"files"`
	Inputs        []Input      `json:"causes"` // what the runs read, and the site
	Problems      []string     `json:"problems"`
	Overwritten   []string     `json:"overwritten,omitempty"` // by To: files that somebody had changed before

	FromTime time.Time `json:"-"`
	ToTime   time.Time `json:"-"`
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

// ItemChange is a label, a taint, a flag or a field of the kubelet's configuration that differs.
type ItemChange struct {
	Item      string   `json:"item"` // as `prelet explain` takes it
	Before    Value    `json:"before"`
	After     Value    `json:"after"`
	Sensitive bool     `json:"sensitive,omitempty"` // a value contains a secret; then both are ""
	Because   []string `json:"because"`             // names of Inputs that it depends on; empty where that is not known
	Perhaps   []string `json:"perhaps,omitempty"`   // names of inputs that may have changed it, which nothing shows
}

// FileChange is a file that differs. A file that is no longer managed is deleted, restored as before prelet, kept, or,
// where the generation that released it is not kept, just released.
type FileChange struct {
	Path       string   `json:"path"`
	Action     string   `json:"action"`               // create | delete | update | restore | keep | release
	Attributes string   `json:"attributes,omitempty"` // the change of mode and owner in words
	Hidden     string   `json:"hidden,omitempty"`     // why the contents are not shown
	Diff       string   `json:"diff,omitempty"`       // unified, of the contents
	Because    []string `json:"because"`
	Perhaps    []string `json:"perhaps,omitempty"` // as in ItemChange

	Before    string `json:"-"`
	After     string `json:"-"`
	Sensitive bool   `json:"-"` // it contains a secret
}

// Unified returns the hunks of a unified diff, without the lines that name the files; "" for equal texts.
func Unified(before, after string) string {
	const header = 3 // "diff", "---" and "+++"

	text := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	parts := strings.SplitAfterN(text, "\n", header+1)

	return parts[len(parts)-1]
}

// Generations compares two generations, the earlier one first.
func Generations(a, b Generation) Difference {
	d := Difference{
		FormatVersion: 1,
		From:          a.Number,
		To:            b.Number,
		Items:         []ItemChange{},
		Files:         []FileChange{},
		Inputs:        []Input{},
		Problems:      slices.Concat([]string{}, a.Problems, b.Problems),
		Overwritten:   b.Overwritten,
		FromTime:      a.Time,
		ToTime:        b.Time,
	}
	if a.Recording != nil && b.Recording != nil {
		d.Inputs = findInputs(a, b)
	}
	if a.Node != nil && b.Node != nil {
		d.Items = findItems(*a.Node, *b.Node)
	}
	d.Files = findFiles(a.Files, b.Files)

	d.addCauses(a, b)

	return d
}

// addCauses adds the causes of items and files. A change by a rollback has no other cause: no input changed for it.
func (d *Difference) addCauses(a, b Generation) {
	later := b
	if a.Number > b.Number {
		later = a
	}
	isChanged := len(d.Items)+len(d.Files) > 0
	if later.Rollback != "" && isChanged {
		d.Inputs = []Input{{Name: later.Rollback, Kind: "rollback", Details: []Detail{}}}
		for n := range d.Items {
			d.Items[n].Because = []string{later.Rollback}
		}
		for n := range d.Files {
			d.Files[n].Because = []string{later.Rollback}
		}
		return
	}

	c := causes{
		before: a,
		after:  b,
		inputs: d.Inputs,
	}
	for n, i := range d.Items {
		because := c.find(i.Item)
		d.Items[n].Because = because
		d.Items[n].Perhaps = c.findPossible(i.Item, i.Sensitive, because)
	}
	for n, f := range d.Files {
		because := c.findOfFile(f, d.Items)
		d.Files[n].Because = because
		d.Files[n].Perhaps = c.findPossible("file"+f.Path, f.Sensitive, because)
	}
}

// union returns the keys of two maps, sorted.
func union[K cmp.Ordered, V any](a, b map[K]V) []K {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)

	return slices.Compact(all)
}
