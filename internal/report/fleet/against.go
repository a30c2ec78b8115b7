package fleet

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// NewEffectAgainst returns what a site changes for a machine relative to an older site: the difference of two plans
// over the same recording. What is on the disk does not count.
func NewEffectAgainst(source string, old, planned *boot.Plan, r *world.Recording) Effect {
	own := newNames(planned, r)
	before := listMessages(old.Diagnostics, own)
	after := listMessages(planned.Diagnostics, own)
	e := Effect{Source: source, Node: findNodeName(planned)}

	e.Changes = compareMessages(before, after)
	isOldKnown := origin.Code(old.Diagnostics) == ""
	if isOldKnown {
		e.Changes = slices.Concat(e.Changes, compareNodes(old, planned), comparePlannedFiles(old, planned))
	}
	e.Messages = slices.DeleteFunc(slices.Clone(after), func(m Message) bool {
		isError := m.Severity == "error"
		return !isError && slices.ContainsFunc(before, m.hasCode)
	})
	e.Waits = isWaiting(planned, e.Changes)
	e.finish(planned, own)
	isUnread := isOldKnown && !old.Complete
	if isUnread && e.State != Failed {
		e.State = Unknown
	}

	return e
}

func (m Message) hasCode(other Message) bool { return m.Code == other.Code }

// compareMessages returns the codes of diagnostics that come or go.
func compareMessages(before, after []Message) (out []Change) {
	old := values{}
	for _, m := range before {
		old[[2]string{"diagnostic", m.Code}] = m.Severity
	}
	planned := values{}
	for _, m := range after {
		planned[[2]string{"diagnostic", m.Code}] = m.Severity
	}

	return old.compare(planned)
}

// compareNodes returns the labels, taints, flags, fields and activations that differ.
func compareNodes(old, planned *boot.Plan) []Change {
	return listNode(old).compare(listNode(planned))
}

func listNode(p *boot.Plan) values {
	out := values{}
	for _, l := range p.Node.Labels {
		out[[2]string{"label", l.Key}] = quoteEmpty(l.Value)
	}
	for _, f := range p.Node.Flags {
		out[[2]string{"flag", "--" + f.Name}] = quoteEmpty(f.Value)
	}
	out.addConfig(p.Node.Config)
	for _, t := range p.Node.Taints {
		out[[2]string{"taint", t.Key + ":" + t.Effect}] = quoteEmpty(t.Value)
	}
	if a := p.Node.Activation; a != nil {
		out[[2]string{"activation", "the kubelet"}] = formatPlain(a)
	}
	for _, u := range p.Node.Units {
		out[[2]string{"activation", u.Unit}] = formatPlain(u)
	}

	return out
}

func formatPlain(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "?" // cannot happen: it has texts, numbers and booleans
	}

	return string(text)
}

// comparePlannedFiles returns the files whose planned state differs.
func comparePlannedFiles(old, planned *boot.Plan) (out []Change) {
	before := listPlannedFiles(old)
	after := listPlannedFiles(planned)
	for path, b := range after {
		a, isOld := before[path]
		switch {
		case !isOld:
			out = append(out, Change{
				Kind:   "file",
				Name:   path,
				Action: "create",
				Diff:   b.diff(plannedFile{}),
			})
		case a != b:
			c := Change{
				Kind:   "file",
				Name:   path,
				Action: "update",
				From:   a.meta,
				To:     b.meta,
				Diff:   b.diff(a),
			}
			c.Listed = b.isListed && a.isListed
			if c.From == c.To {
				c.From = ""
				c.To = ""
			}
			out = append(out, c)
		}
	}
	for path := range before {
		if _, stays := after[path]; !stays {
			out = append(out, Change{Kind: "file", Name: path, Action: "delete"})
		}
	}

	return out
}

// plannedFile is what a site wants a file to be.
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
