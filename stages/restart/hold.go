package restart

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
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
		Phase:    schema.Decide, // node lacks parts without a value here, such as a label
		Secret:   "Everyone who may read the status can read whether it is true.",
		Doc: "While it is true, the kubelet does not start. " +
			"Where it is null, cannot be evaluated, or names a list of facts that could not be read, nothing is held.",
	}
	holdForAttr = schema.Attr[string]{
		Name:     "for",
		Required: true,
		Check:    schema.Duration,
		Doc: "How long at most, over boots, without the time in which the machine was off. A boot counts a tenth at " +
			"least. After that the kubelet starts, and the boot is degraded, until `when` was false once.",
	}
	holdMessageAttr = schema.Attr[string]{
		Name:     "message",
		Required: true,
		Soft:     true,
		Doc:      "What is wrong, and what to do. Everyone who may read the status can read it.",
	}
)

// holds returns the holds of the site that are true on this machine, or unknown, in the order of the site.
func (r *renderer) holds() (out []desired.Hold) {
	blocks := r.cfg.Blocks[holdBlock]
	if len(blocks) > maxHolds {
		r.Error(fault.Limit, blocks[maxHolds].Range, "Too many holds",
			"There are %d holds, and %d at most. Combine some by ||.", len(blocks), maxHolds)
	}

	for _, b := range blocks {
		name := b.Labels[0]
		when := holdWhenAttr.Of(b)
		hold := desired.Hold{
			Name:    name,
			For:     schema.ParseDuration(holdForAttr.Of(b)),
			Message: shorten(holdMessageAttr.Of(b)),
			Unknown: !when.Set(),
		}
		switch {
		case r.in.Check, when.Set() && !when.V:
			continue
		case when.Null():
			r.note(when.Range, name)
		case when.Set():
			r.Warn(fault.KubeletHeld, when.Range, fmt.Sprintf("Hold %q is true", name),
				"%s. A boot keeps the kubelet from starting, for %s at most.",
				origin.Capitalize(hold.Message), hold.For)
		}
		out = append(out, hold)
	}

	return out
}

// note reports a hold of which this machine does not know whether it is true.
func (r *renderer) note(at hcl.Range, name string) {
	r.Diags = append(r.Diags, origin.Note(fault.NullFact, at, fmt.Sprintf("Hold %q is null", name),
		"It is not known on this machine, so the kubelet starts. `prelet detect` shows what is unknown."))
}
