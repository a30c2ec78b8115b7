package fleet

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/insight/compare"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// NewEffect returns the changes of a plan on the disk of the machine of a recording or, where old is not nil, relative
// to that plan of an older site over the same recording: then the disk does not count.
func NewEffect(source string, old, planned *boot.Plan, r *world.Recording) Effect {
	own := newNames(planned, r)
	e := Effect{Machine: Machine{Source: source, Node: planned.NodeName()}}
	messages := planned.Diagnostics
	isDegraded := len(planned.Degraded) > 0
	if old == nil {
		e.Restarts = count(planned.Restart.Needed)
		e.Changes = ListChanges(planned)
	} else {
		e.Changes = listCodes(old.Diagnostics).Diff(listCodes(planned.Diagnostics))
		if codeOfSite(old.Diagnostics) == "" && planned.Complete {
			changes := compare.Plans(old, planned)
			e.Restarts = count(slices.ContainsFunc(changes, func(c compare.NodeChange) bool {
				return notifiesKubelet(planned, c) || notifiesKubelet(old, c)
			}))
			e.Changes = append(e.Changes, changes...)
		}
		before, after := countPlaces(old, newNames(old, r)), countPlaces(planned, own)
		messages = slices.DeleteFunc(slices.Clone(messages), func(d *hcl.Diagnostic) bool {
			about := subjectOf(d, own)
			return after[about] <= before[about] && d.Severity != hcl.DiagError
		})
		isDegraded = isDegraded && len(old.Degraded) == 0
	}
	e.Messages = listMessages(messages, own)
	e.Waits = count(isWaiting(planned, e.Changes))
	e.Degraded = count(isDegraded)
	e.finish(planned, own)

	return e
}

// ListChanges returns the changes of a plan on the disk.
func ListChanges(p *boot.Plan) (out []compare.NodeChange) {
	for _, c := range p.Changes {
		if c.Changes() {
			out = append(out, listFileChanges(p, c)...)
		}
	}

	return out
}

// notifiesKubelet reports whether a plan has the file of a change, for which the kubelet is restarted.
func notifiesKubelet(p *boot.Plan, c compare.NodeChange) bool {
	return slices.ContainsFunc(p.Changes, func(f boot.FileChange) bool {
		return c.Kind == "file" && f.File.Path == c.Name && slices.Contains(f.Notifies, p.Restart.Unit)
	})
}

// listCodes returns the codes of diagnostics with their worst severity.
func listCodes(diags hcl.Diagnostics) compare.Items {
	out := compare.Items{}
	for _, severity := range []string{"note", "warning", "error"} {
		for _, d := range diags {
			if origin.Severity(d) == severity {
				out.Set("diagnostic", string(origin.CodeOf(d)), severity)
			}
		}
	}

	return out
}

// listExtras returns what diagnostics of a plan are about, by which the plan for another kubelet has the same, whatever
// they say.
func listExtras(p *boot.Plan) map[origin.Extra]bool {
	out := map[origin.Extra]bool{}
	for _, d := range p.Diagnostics {
		out[extra(d)] = true
	}

	return out
}

// subject is what a message is about: an item or, where it names none, its summary.
type subject struct {
	origin.Extra
	summary string
}

func subjectOf(d *hcl.Diagnostic, own names) subject {
	if e := extra(d); e.Item != "" {
		return subject{Extra: e}
	}

	return subject{extra(d), own.replace(d.Summary)}
}

// countPlaces returns at how many places a plan has messages about each subject: several may have one, as "No taint".
func countPlaces(p *boot.Plan, own names) map[subject]int {
	type message struct {
		subject
		at string
	}
	out, seen := map[subject]int{}, map[message]bool{}
	for _, d := range p.Diagnostics {
		m := message{subject: subjectOf(d, own)}
		if d.Subject != nil {
			m.at = d.Subject.String()
		}
		if !seen[m] {
			seen[m] = true
			out[m.subject]++
		}
	}

	return out
}

// isWaiting reports whether a changed label or taint takes effect only when a node that has joined registers again.
func isWaiting(p *boot.Plan, changes []compare.NodeChange) bool {
	if !p.Kubelet.Joined {
		return false
	}
	for _, c := range changes {
		isLate := c.Kind == "label" && p.TakesEffect(c.Name) == "registration"
		if isLate || c.Kind == "taint" {
			return true
		}
	}

	return false
}

// listFileChanges returns the change of a file, and of the kubelet's own files what changes in them. Of a new
// configuration it lists the fields that the site sets; the others are in the diff.
func listFileChanges(p *boot.Plan, c boot.FileChange) []compare.NodeChange {
	var old, planned *compare.File
	if c.Old.Exists {
		old = &compare.File{Meta: compare.DescribeMeta(c.Old.Mode, c.Old.Owner), Content: c.Old.Text}
	}
	if c.File.Kind != node.Missing {
		planned = &compare.File{
			Meta:    compare.DescribeMeta(c.Mode(), c.Owner()),
			Content: c.File.Text.Template(),
			Hidden:  whyHidden(c),
		}
	}

	var inner []compare.NodeChange
	switch {
	case planned == nil || planned.Hidden != "":
	case c.File.Purpose == "kubelet-flags":
		inner = compareFlagFiles(c.Old.Text, planned.Content)
	case c.File.Purpose == "kubelet-config":
		inner = compareConfig(c.Old.Text, c.File.Config)
	}
	file := compare.CompareFile(c.File.Path, old, planned)
	file.Action = c.Action
	file.Listed = len(inner) > 0
	switch {
	case old == nil && c.File.Purpose == "ca": // as in the plan of one node
		file.Content, file.Diff = file.Diff, ""
	case old == nil && c.File.Purpose == "kubelet-config":
		inner = slices.DeleteFunc(inner, func(field compare.NodeChange) bool {
			return field.Kind == "config" && !isOfSite(p, field.Name)
		})
	case file.Listed:
		file.Diff = ""
	}

	return append(inner, file)
}

// isOfSite reports whether the site sets a field of the kubelet's configuration, and not only its base.
func isOfSite(p *boot.Plan, name string) bool {
	for pointer := range p.Node.ConfigOrigins {
		field := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
		if name == field || strings.HasPrefix(name, field+".") {
			return true
		}
	}

	return false
}

// whyHidden returns why a plan does not show what differs in a file: its secret, or that only root may read it.
func whyHidden(c boot.FileChange) string {
	switch {
	case len(c.File.Text.Secrets()) > 0 || c.File.Purpose == "identity":
		return compare.Secret
	case c.Old.Uncompared != "" || c.Old.Private:
		return compare.Private
	}

	return ""
}

// changedLines returns the removed and added lines of a unified diff. Lines around them, which may differ between
// machines, and their places are left out.
func changedLines(diff string) string {
	var out strings.Builder
	for line := range strings.Lines(diff) {
		if line[0] == '+' || line[0] == '-' {
			out.WriteString(line)
		}
	}

	return out.String()
}
