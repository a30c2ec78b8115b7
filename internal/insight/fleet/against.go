package fleet

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// NewEffectAgainst returns the changes of a site for a machine relative to an older site: the difference of two plans
// over the same recording. The disk does not count, so whether the kubelet is restarted is not known.
func NewEffectAgainst(source string, old, planned *boot.Plan, r *world.Recording) Effect {
	own := newNames(planned, r)
	before := listMessages(old.Diagnostics, own)
	after := listMessages(planned.Diagnostics, own)
	e := Effect{Machine: Machine{Source: source, Node: planned.NodeName()}}

	e.Changes = compareItems(listCodes(before), listCodes(after))
	isOldKnown := origin.Code(old.Diagnostics) == ""
	if isOldKnown && planned.Complete {
		e.Changes = append(e.Changes, compareItems(listNode(old), listNode(planned))...)
		e.compareFiles(old, planned, own)
	}
	e.Messages = slices.DeleteFunc(slices.Clone(after), func(m Message) bool {
		isError := m.Severity == "error"
		return !isError && slices.ContainsFunc(before, m.hasCode)
	})
	e.Waits = count(isWaiting(planned, e.Changes))
	e.finish(planned, own)
	if len(old.Degraded) > 0 {
		e.Degraded = 0
	}

	return e
}

func (m Message) hasCode(other Message) bool { return m.Code == other.Code }

func listCodes(all []Message) node.Items {
	out := node.Items{}
	for _, m := range all {
		out.Set("diagnostic", m.Code, m.Severity)
	}

	return out
}

// listNode returns the labels, taints, flags, fields and activations of a plan.
func listNode(p *boot.Plan) node.Items {
	out := p.Node.Stored().Items()
	if a := p.Node.Activation; a != nil {
		out.Set("activation", "the kubelet", a)
	}
	for _, u := range p.Node.Units {
		out.Set("activation", u.Unit, u)
	}

	return out
}

// compareFiles adds the files whose planned state differs. One whose difference is not shown is in the signature.
func (e *Effect) compareFiles(old, planned *boot.Plan, own names) {
	before := listPlannedFiles(old)
	after := listPlannedFiles(planned)
	for path, b := range after {
		a, isOld := before[path]
		c := Change{Kind: "file", Name: path, Action: "create", Diff: b.diff(a)}
		switch {
		case a == b:
			continue
		case isOld:
			c.Action = "update"
			c.Listed = b.isListed && a.isListed
		}
		if isOld && a.meta != b.meta {
			c.From, c.To = a.meta, b.meta
		}
		e.Changes = append(e.Changes, c)
		if a.text != b.text && (a.isHidden || b.isHidden) && !(a.isListed && b.isListed) {
			e.hide(path, b.text, own)
		}
	}
	for path := range before {
		if _, stays := after[path]; !stays {
			e.Changes = append(e.Changes, Change{Kind: "file", Name: path, Action: "delete"})
		}
	}
}

// plannedFile is the planned state of a file.
type plannedFile struct {
	meta     string // kind, mode and owner
	text     string
	isListed bool // its difference is labels, taints, flags and fields
	isHidden bool // its difference is not shown as lines
}

// listPlannedFiles returns the files that a site declares. Those that it no longer declares are left out, as are files
// of the kubelet that are removed with a previous identity.
func listPlannedFiles(p *boot.Plan) map[string]plannedFile {
	out := map[string]plannedFile{}
	for _, f := range p.Node.Files {
		meta := []string{string(f.Kind)}
		if f.Mode != 0 {
			meta = append(meta, describeMeta(f.Mode, f.Owner))
		} else if f.Owner != "" {
			meta = append(meta, f.Owner)
		}
		if f.CreateOnly {
			meta = append(meta, "create only")
		}
		if f.Notify != nil {
			meta = append(meta, "notify ["+strings.Join(f.Notify, ", ")+"]")
		}
		isListed := f.Purpose == "kubelet-flags" || f.Purpose == "kubelet-config"
		out[f.Path] = plannedFile{
			meta:     strings.Join(meta, " "),
			text:     f.Text.Template(),
			isListed: isListed,
			isHidden: isListed || f.Kind != node.Regular || len(f.Text.Secrets()) > 0,
		}
	}

	return out
}

// diff returns the lines that differ from an older text; "" if they are not shown.
func (f plannedFile) diff(old plannedFile) string {
	if f.isHidden || old.isHidden {
		return ""
	}

	return changedLines(old.text, f.text)
}
