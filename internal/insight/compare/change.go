package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/prelet/prelet/internal/boot"
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
	Items Items            // nil: they are not known, and are not compared
	Files map[string]*File // by path
}

// File is a file of a State. Two files with equal fields do not differ.
type File struct {
	Meta    string // kind, mode and owner; "": not known
	Content string // where Hidden is set, any text that differs where the content does
	Hidden  string // why the content is not shown
	Listed  bool   // what differs in it is labels, taints, flags and fields
	Left    string // of a file that is not managed: restore | keep | release, as Change.Action
}

// Changes returns what differs between two states: items by kind and name, then files by path. A file that is managed
// in neither is not compared.
func Changes(before, after NodeState) (out []NodeChange) {
	if before.Items != nil && after.Items != nil {
		out = before.Items.Diff(after.Items)
	}

	for _, path := range union(before.Files, after.Files) {
		x, y := before.Files[path], after.Files[path]
		isManaged := x != nil && x.Left == "" || y != nil && y.Left == ""
		isEqual := x != nil && y != nil && *x == *y
		if isManaged && !isEqual {
			out = append(out, CompareFile(path, x, y))
		}
	}

	return out
}

// Plans returns what differs between the nodes of two plans.
func Plans(before, after *boot.Plan) []NodeChange {
	return Changes(PlanState(before), PlanState(after))
}

// CompareFile returns the difference of a file. One that does not exist is nil.
func CompareFile(path string, before, after *File) NodeChange {
	c := NodeChange{Kind: "file", Name: path}
	var x, y File
	switch {
	case before == nil:
		c.Action = "create"
		y = *after
		x.Listed = y.Listed
	case after == nil:
		c.Action = "delete"
		x = *before
		y.Listed = x.Listed
	default:
		x, y = *before, *after
		c.Action = cmp.Or(y.Left, "update")
		if x.Meta != y.Meta && x.Meta != "" && y.Meta != "" {
			c.From, c.To = x.Meta, y.Meta
		}
	}

	c.Hidden = cmp.Or(y.Hidden, x.Hidden)
	c.Listed = x.Listed && y.Listed
	isShown := c.Hidden == "" && (before == nil || after == nil || !x.Listed && !y.Listed)
	switch {
	case x.Content == y.Content:
	case isShown:
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

// PlanState returns a node as a plan has it. Files of the kubelet that are removed with a previous identity, and files
// that the site no longer declares, are left out.
func PlanState(p *boot.Plan) NodeState {
	out := NodeState{ItemsOf(p.Node.Stored()), map[string]*File{}}
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
		one := &File{Meta: meta, Content: f.Text.Template()}
		one.Listed = f.Purpose == "kubelet-flags" || f.Purpose == "kubelet-config"
		if len(f.Text.Secrets()) > 0 {
			one.Hidden = Secret
		}
		out.Files[f.Path] = one
	}

	return out
}

// DescribeMeta returns a mode and an owner in words.
func DescribeMeta(mode uint32, owner string) string {
	return fmt.Sprintf("%04o %s", mode, cmp.Or(owner, "root:root"))
}
