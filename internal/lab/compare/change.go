package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// NodeChange is one difference between two states of a node. From is "" for something new, To is "" for something
// removed.
type NodeChange struct {
	Kind   string `json:"kind"` // label | taint | flag | config | file | activation | diagnostic
	Name   string `json:"name"`
	Action string `json:"action"` // create | update | delete; of a file that is not managed: restore | keep | release
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Diff   string `json:"diff,omitempty"`   // of a file: its changed lines
	Hidden string `json:"hidden,omitempty"` // why values or lines are not shown
	// Listed is set for a file of the kubelet whose difference is other changes: labels, taints, flags, fields.
	Listed bool `json:"listed,omitempty"`
	// Drift is how somebody had changed a file that is written over.
	Drift string `json:"drift,omitempty"`

	Content string `json:"-"` // the new content of a file whose lines are not shown, with placeholders for secrets
}

// Why a value or a content is not shown.
const (
	Secret  = "it contains a secret"
	Private = "not every user may read it"
	Foreign = "prelet did not write both of them"
	Lost    = "a content is lost"
)

// Kinds returns the kinds of changes in their order.
func Kinds() []string {
	return []string{"label", "taint", "flag", "config", "file", "activation", "diagnostic"}
}

// Compare sorts by kind in the order in which an operator reads, then by name.
func (c NodeChange) Compare(other NodeChange) int {
	order := Kinds()

	return cmp.Or(
		slices.Index(order, c.Kind)-slices.Index(order, other.Kind),
		cmp.Compare(c.Kind, other.Kind),
		cmp.Compare(c.Name, other.Name),
		cmp.Compare(c.Action, other.Action),
		cmp.Compare(c.From, other.From),
		cmp.Compare(c.To, other.To),
		cmp.Compare(c.Diff, other.Diff),
		cmp.Compare(fmt.Sprint(c.Listed), fmt.Sprint(other.Listed)),
	)
}

// NodeState is a node as a plan or a generation has it.
type NodeState struct {
	Items Items                // nil: they are not known, and are not compared
	Files map[string]*FileView // by path
	// Known has the changes to files of this state, by path, as far as they are known: an action, or how the file had
	// been changed by hand.
	Known map[string]evaluate.FileChange
}

// FileView is a file of a NodeState. Two files with equal fields do not differ.
type FileView struct {
	Meta    string // kind, mode and owner; "": not known
	Content string // where Hidden is set, any text that differs where the content does
	Hidden  string // why the content is not shown
	Of      string // the kinds of the items that it is rendered from; "": it is not a file of the kubelet
	IsLong  bool   // its lines are not shown where it is new
	Left    string // of a file that is not managed: restore | keep | release, as NodeChange.Action
}

// Changes returns the differences between two states: items by kind and name, then files by path. A file that is
// managed in neither is not compared. What differs in a file of the kubelet is its items, where any of them does.
func Changes(before, after NodeState) (out []NodeChange) {
	if before.Items != nil && after.Items != nil {
		out = before.Items.diff(after.Items)
	}

	items := out
	for _, path := range union(before.Files, after.Files) {
		x, y := before.Files[path], after.Files[path]
		isManaged := x != nil && x.Left == "" || y != nil && y.Left == ""
		known, isKnown := after.Known[path]
		isEqual := x != nil && y != nil && *x == *y && !isKnown
		if isManaged && !isEqual {
			c := compareFile(path, x, y, items)
			c.Action = cmp.Or(known.Action, c.Action)
			c.Drift = known.Drift
			out = append(out, c)
		}
	}

	return out
}

// compareFile returns the difference of a file. A missing file is nil.
func compareFile(path string, before, after *FileView, items []NodeChange) NodeChange {
	c := NodeChange{Kind: "file", Name: path, Action: "update"}
	x, y := cmp.Or(before, &FileView{}), cmp.Or(after, &FileView{})
	isOnOneSide := before == nil || after == nil
	switch {
	case before == nil:
		c.Action = "create"
	case after == nil:
		c.Action = "delete"
	case y.Left != "":
		c.Action = y.Left
	}
	if x.Meta != y.Meta && x.Meta != "" && y.Meta != "" {
		c.From, c.To = x.Meta, y.Meta
	}

	c.Hidden = cmp.Or(y.Hidden, x.Hidden)
	c.Listed = isOnOneSide && x.Of+y.Of != "" || slices.ContainsFunc(items, func(i NodeChange) bool {
		return strings.Contains(x.Of, i.Kind) && strings.Contains(y.Of, i.Kind)
	})
	isLong := before == nil && y.IsLong
	switch {
	case x.Content == y.Content:
	case c.Hidden == "" && !isLong && (isOnOneSide || !c.Listed):
		c.Diff = Unified(x.Content, y.Content)
	case !c.Listed:
		c.Content = y.Content
	}

	return c
}

// Unified returns the hunks of a unified diff, without the lines that name the files; "" for equal texts.
func Unified(before, after string) string {
	const header = 3 // "diff", "---" and "+++"

	text := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	parts := strings.SplitAfterN(text, "\n", header+1)

	return parts[len(parts)-1]
}

// PlanState returns a node as a plan has it, with more items of the caller. Files of the kubelet that are removed with
// a previous identity, and files that the site no longer declares, are left out.
func PlanState(p *evaluate.Plan, more Items) NodeState {
	out := NodeState{Items: ItemsOf(p.Node.Stored()), Files: map[string]*FileView{}}
	maps.Copy(out.Items, more)
	if a := p.Node.Activation; a != nil {
		out.Items.Set("activation", "the kubelet", a)
	}
	for _, u := range p.Node.Units {
		out.Items.Set("activation", u.Unit, u)
	}

	for _, f := range p.Node.Files {
		meta := string(f.Kind)
		if f.Mode != 0 {
			meta += " " + DescribeMeta(f.Mode, f.Owner)
		} else if f.Owner != "" {
			meta += " " + f.Owner
		}
		if f.CreateOnly {
			meta += " create only"
		}
		if f.Notify != nil {
			meta += " notify [" + strings.Join(f.Notify, ", ") + "]"
		}
		out.Files[f.Path] = newFile(p, f, meta)
	}

	return out
}

func newFile(p *evaluate.Plan, f desired.File, meta string) *FileView {
	return &FileView{
		Meta:    meta,
		Content: f.Text.Template(),
		Hidden:  WhyHidden(evaluate.FileChange{File: f}),
		Of:      kindsOf(p, f),
		IsLong:  f.Purpose == "ca",
	}
}

// WhyHidden returns why the contents of a file that a plan changes are not shown; "" where they may be.
func WhyHidden(c evaluate.FileChange) string {
	switch {
	case len(c.File.Text.Secrets()) > 0, c.File.Purpose == "identity":
		return Secret
	case c.Old.Uncompared != "", c.Old.Private:
		return Private
	}

	return ""
}

// kindsOf returns the kinds of the items that a file of a plan is rendered from.
func kindsOf(p *evaluate.Plan, f desired.File) string {
	kinds := map[string]string{"kubelet-flags": "flag label", "kubelet-config": "config"}[f.Purpose]
	if kinds != "" && p.Node.TaintFlag == (f.Purpose == "kubelet-flags") {
		kinds += " taint"
	}

	return kinds
}

// DiskStates returns the files that a plan changes, as they are on the disk and as planned, with the items of the
// kubelet's own files where both sides are known.
func DiskStates(p *evaluate.Plan) (before, after NodeState) {
	before = NodeState{Items: Items{}, Files: map[string]*FileView{}}
	after = NodeState{Items: Items{}, Files: map[string]*FileView{}, Known: map[string]evaluate.FileChange{}}
	for _, c := range p.Changes {
		if !c.Changes() {
			continue
		}
		path := c.File.Path
		x := &FileView{Meta: DescribeMeta(c.Old.Mode, c.Old.Owner), Content: c.Old.Text}
		y := newFile(p, c.File, DescribeMeta(c.Mode(), c.Owner()))
		y.Hidden = WhyHidden(c)
		isWhole := c.File.Kind == desired.Missing || y.Hidden != ""
		if y.Of != "" && (isWhole || !addItems(p, c, before.Items, after.Items)) {
			y.Of = ""
		}
		x.Of = y.Of
		after.Known[path] = c

		if c.Action != "create" {
			before.Files[path] = x
		}
		switch c.Action {
		case "delete":
		case "restore": // to a content that is not known
			after.Files[path] = &FileView{Content: x.Content}
		default:
			after.Files[path] = y
		}
	}

	return before, after
}

// DescribeMeta returns a mode and an owner, such as "0644 root:root". An empty owner is root.
func DescribeMeta(mode uint32, owner string) string {
	return fmt.Sprintf("%04o %s", mode, cmp.Or(owner, "root:root"))
}
