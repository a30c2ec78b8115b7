package fleet

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// NewEffectAgainst returns what a site changes for a machine relative to an older site: the difference of two plans
// over the same recording. The disk does not count, so whether the kubelet is restarted is not known.
func NewEffectAgainst(source string, old, planned *boot.Plan, r *world.Recording) Effect {
	own := newNames(planned, r)
	before := listSiteMessages(old, own)
	after := listSiteMessages(planned, own)
	e := Effect{Source: source, Node: findNodeName(planned)}

	e.Changes = compareMessages(before, after)
	isOldKnown := origin.Code(old.Diagnostics) == ""
	if isOldKnown && isRendered(old) && isRendered(planned) {
		e.Changes = append(e.Changes, compareItems(listNode(old), listNode(planned))...)
		e.compareFiles(old, planned, own)
		e.doubt(old, planned)
	}
	e.Messages = slices.DeleteFunc(slices.Clone(after), func(m Message) bool {
		isError := m.Severity == "error"
		return !isError && slices.ContainsFunc(before, m.hasCode)
	})
	e.Waits = isWaiting(planned, e.Changes)
	isKnown := isKnownApartFromDisk(planned) && (isKnownApartFromDisk(old) || !isOldKnown)
	e.finish(planned, own, isKnown)
	e.Degraded = e.Degraded && len(old.Degraded) == 0

	return e
}

// isKnownApartFromDisk reports whether a plan lacks no answer but the present state of files, as with a new file in the
// site: that does not count here.
func isKnownApartFromDisk(p *boot.Plan) bool {
	return p.Complete || isRendered(p) && !slices.ContainsFunc(p.Unread, func(u boot.Unread) bool {
		return !strings.HasPrefix(u.Question, string(world.KindTarget)+" ")
	})
}

// listSiteMessages returns the messages of a plan without those about answers that do not count.
func listSiteMessages(p *boot.Plan, own names) []Message {
	all := listMessages(p.Diagnostics, own)
	if !isKnownApartFromDisk(p) {
		return all
	}

	return slices.DeleteFunc(all, func(m Message) bool {
		return m.Code == string(fault.Unread)
	})
}

// isRendered reports whether a plan came as far as its files. It did not if the recording lacks the answer of a gather
// stage.
func isRendered(p *boot.Plan) bool {
	return p.Complete || len(p.Node.Files) > 0
}

// doubt turns changes into unknown ones where a plan is not complete: what a plan lacks may be there on the node.
// Diagnostics that it lacks are left out.
func (e *Effect) doubt(old, planned *boot.Plan) {
	isOldKnown := isKnownApartFromDisk(old)
	isPlannedKnown := isKnownApartFromDisk(planned)
	var kept []Change
	for _, c := range e.Changes {
		isDoubtful := c.Action == "delete" && !isPlannedKnown || c.Action == "create" && !isOldKnown
		switch {
		case !isDoubtful:
			kept = append(kept, c)
		case c.Kind != "diagnostic":
			c.Action = "unknown"
			kept = append(kept, c)
		}
	}
	e.Changes = kept
}

func (m Message) hasCode(other Message) bool { return m.Code == other.Code }

// compareMessages returns the codes of diagnostics that come or go.
func compareMessages(before, after []Message) []Change {
	return compareItems(listCodes(before), listCodes(after))
}

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
