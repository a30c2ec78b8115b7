package kubelet

import (
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet/annotation"
)

// TaintChange is a change of the taints of a Node, with the annotation that says which of them prelet owns.
type TaintChange struct {
	Add    []Taint
	Remove []Taint // those of Add with another value are among them
	Owned  []Taint // afterwards
	// OnlyNote is set if only the annotation changes.
	OnlyNote bool

	node NodeObject // as it was read
}

// OwnedTaints returns the taints of a Node that prelet owns by its annotation. An annotation that another program has
// damaged owns none.
func (n NodeObject) OwnedTaints() (owned []Taint) {
	for _, text := range strings.Fields(n.Annotations[annotation.Taints]) {
		if t, err := ParseTaint(text); err == nil {
			owned = append(owned, t)
		}
	}

	return owned
}

// ChangeTaints returns the change that gives a Node the taints in want, and removes those that its annotation lists and
// that are not planned. planned has all taints of the plan, want among them: a planned taint that is not in want only
// leaves the annotation. ok is false if nothing has to change.
//
// Taints of other parties stay, also with their times. A Node has one taint for a key and an effect, so another party's
// value is a conflict: it stays, and the annotation does not list it.
func (n NodeObject) ChangeTaints(want, planned []Taint) (c TaintChange, ok bool) {
	c = TaintChange{node: n}
	owned := n.OwnedTaints()

	for _, t := range want {
		i := slices.IndexFunc(n.Taints, t.isSame)
		switch {
		case i < 0:
			c.Add = append(c.Add, t)
		case n.Taints[i] == t:
		case slices.ContainsFunc(owned, t.isSame):
			c.Add = append(c.Add, t)
			c.Remove = append(c.Remove, n.Taints[i])
		default:
			continue // another party's value
		}
		c.Owned = append(c.Owned, t)
	}

	for _, t := range owned {
		isPlanned := slices.ContainsFunc(planned, t.isSame)
		if !isPlanned && slices.Contains(n.Taints, t) {
			c.Remove = append(c.Remove, t)
		}
	}

	c.OnlyNote = len(c.Add)+len(c.Remove) == 0
	isNoted := n.Annotations[annotation.Taints] == formatOwned(c.Owned)

	return c, !c.OnlyNote || !isNoted
}

// After returns the Node as it is once the change is applied.
func (c TaintChange) After() NodeObject {
	n := c.node
	isRemoved := func(t Taint) bool { return slices.Contains(c.Remove, t) }
	n.Taints = append(slices.DeleteFunc(slices.Clone(n.Taints), isRemoved), c.Add...)

	return n
}

// FindSame returns the taint of a Node with the key and the effect of t, which excludes t if the values differ.
func (n NodeObject) FindSame(t Taint) (found Taint, ok bool) {
	if i := slices.IndexFunc(n.Taints, t.isSame); i >= 0 {
		return n.Taints[i], true
	}

	return Taint{}, false
}

// String returns the arguments of kubectl taint.
func (c TaintChange) String() string {
	var words []string
	for _, t := range c.Add {
		words = append(words, t.String())
	}
	for _, t := range c.Remove {
		isReplaced := slices.ContainsFunc(c.Add, t.isSame)
		if !isReplaced {
			words = append(words, t.String()+"-")
		}
	}

	return strings.Join(words, " ")
}

func formatOwned(taints []Taint) string {
	var words []string
	for _, t := range taints {
		words = append(words, t.String())
	}
	slices.Sort(words)

	return strings.Join(words, " ")
}

// Patch implements Change by a merge patch (RFC 7386), which the API server refuses with 409 if the Node has changed
// since it was read: the list of taints has other owners, too, and is replaced as a whole.
func (c TaintChange) Patch(time.Time) (kind, path string, document any) {
	taints := []any{}
	for i, t := range c.node.Taints {
		if !slices.Contains(c.Remove, t) {
			taints = append(taints, c.node.rawTaints[i])
		}
	}
	for _, t := range c.Add {
		taints = append(taints, t)
	}

	var owned *string // null removes it
	if text := formatOwned(c.Owned); text != "" {
		owned = &text
	}

	return "merge-patch", "", map[string]any{
		"metadata": map[string]any{
			"resourceVersion": c.node.ResourceVersion,
			"annotations":     map[string]any{annotation.Taints: owned},
		},
		"spec": map[string]any{"taints": taints},
	}
}
