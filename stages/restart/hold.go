package restart

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
)

const (
	holdBlock = "hold"
	maxHolds  = 16
)

var (
	holdWhenAttr = schema.Attr[bool]{
		Name:     "when",
		Required: true,
		Soft:     true,
		Certain:  true,
		Secret:   "Everyone who may read the status can read whether it is true.",
		Doc: "While it is true, the kubelet does not start. `node` is the finished node. " +
			"Where it is null, cannot be evaluated, or names a list of facts that could not be read, nothing is held.",
	}
	holdForAttr = schema.Attr[string]{
		Name:     "for",
		Required: true,
		Check:    schema.Duration,
		Doc: "How long at most, over boots, which count a tenth at least, without the time in which the machine was off. " +
			"After that the kubelet starts, and the boot is degraded, until `when` was not true once.",
	}
	holdMessageAttr = schema.Attr[string]{
		Name:     "message",
		Required: true,
		Soft:     true,
		Doc:      "What is wrong, and what to do. Everyone who may read the status can read it.",
	}
)

// holds returns the holds of the site that are true on this machine, in the order of the site.
func (r *renderer) holds() (out []node.Hold) {
	blocks := r.cfg.Blocks[holdBlock]
	if len(blocks) > maxHolds {
		r.Error(fault.Limit, blocks[maxHolds].Range, "Too many holds",
			"There are %d holds, and %d at most. Combine some by ||.", len(blocks), maxHolds)
	}

	for _, b := range blocks {
		name := b.Labels[0]
		when := holdWhenAttr.Of(b)
		limit := schema.ParseDuration(holdForAttr.Of(b))
		switch {
		case when.Null(), when.Set() && when.V && r.isUnread(when):
			r.note(when.Range, name)
		case when.Set() && when.V && !r.in.Check:
			hold := node.Hold{
				Name:    name,
				For:     limit,
				Message: shorten(holdMessageAttr.Of(b)),
			}
			r.Warn(fault.KubeletHeld, when.Range, fmt.Sprintf("Hold %q is true", name),
				"%s. A boot keeps the kubelet from starting, for %s at most.", origin.Capitalize(hold.Message), limit)
			out = append(out, hold)
		}
	}

	return out
}

// isUnread reports whether an expression names a list of facts that could not be read: it is empty, as if the machine
// had none.
func (r *renderer) isUnread(when schema.Value[bool]) bool {
	var names []string
	for _, reference := range when.Expr.Variables() {
		for _, step := range reference {
			if attr, ok := step.(hcl.TraverseAttr); ok {
				names = append(names, attr.Name)
			}
		}
	}
	for _, o := range when.Origins() { // of locals
		names = append(names, strings.FieldsFunc(o.Text, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) })...)
	}

	return r.in.Facts != nil && slices.ContainsFunc(r.in.Facts.Unknown, func(u world.UnknownFact) bool {
		isGPUs := u.Fact == "accelerators" && slices.Contains(names, "gpus")

		return isGPUs || slices.Contains(names, u.Fact)
	})
}

// note reports a hold of which this machine does not know whether it is true.
func (r *renderer) note(at hcl.Range, name string) {
	if r.in.Check {
		return
	}

	r.Diags = append(r.Diags, origin.Note(fault.NullFact, at, fmt.Sprintf("Hold %q is null", name),
		"It is not known on this machine, so the kubelet starts. `prelet detect` shows what is unknown."))
}
