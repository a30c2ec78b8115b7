package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/states"
)

// NewEffect returns the changes of a plan on the disk of the machine of a recording or, where old is not nil, relative
// to that plan of an older site over the same recording: then the disk does not count.
func NewEffect(source string, old, planned *evaluate.Plan, r *tape.Recording) Effect {
	own := newNames(planned, r)
	e := Effect{Member: Member{Source: source, Node: planned.NodeName()}}
	messages := planned.Diagnostics
	isDegraded := len(planned.Degraded) > 0
	isWhole := old != nil && codeOfSite(old.Diagnostics) == "" && planned.Complete
	var before, after compare.NodeState
	if old == nil {
		before, after = compare.DiskStates(planned)
		e.Restarts = count(planned.Restart.Needed)
		e.Drains = count(planned.Needs() == evaluate.NeedsDrain)
	} else {
		before.Items, after.Items = listCodes(old.Diagnostics), listCodes(planned.Diagnostics)
		if isWhole {
			before, after = compare.PlanState(old, before.Items), compare.PlanState(planned, after.Items)
		}
		added := findAdded(old.Diagnostics, planned.Diagnostics, newNames(old, r), own)
		messages = slices.DeleteFunc(slices.Clone(messages), func(d *hcl.Diagnostic) bool {
			return d.Severity != hcl.DiagError && !slices.Contains(added, d)
		})
		isDegraded = isDegraded && len(old.Degraded) == 0
	}
	e.Changes = compare.Changes(before, after)
	if isWhole && len(e.Changes) > 0 {
		e.Causes = compare.ListInputs(old, planned)
		e.Restarts = count(slices.ContainsFunc(e.Changes, func(c compare.NodeChange) bool {
			return notifiesKubelet(planned, c) || notifiesKubelet(old, c)
		}))
		e.Drains = e.Restarts * count(len(states.ListDrains(old.Node.Effective, planned.Node.Effective)) > 0)
	}
	e.Messages = listMessages(messages, own)
	e.Waits = count(isWaiting(planned, e.Changes))
	earlier := listUnknownHolds(old)
	e.MayBeHeld = count(slices.ContainsFunc(listUnknownHolds(planned), func(name string) bool {
		return !slices.Contains(earlier, name)
	}))
	e.Degraded = count(isDegraded)
	e.finish(planned, own)

	return e
}

// listUnknownHolds returns the names of a plan's holds of which it is not known whether they are true.
func listUnknownHolds(p *evaluate.Plan) (names []string) {
	if p == nil || p.Node.Activation == nil {
		return nil
	}
	for _, h := range p.Node.Activation.Holds {
		if h.Unknown {
			names = append(names, h.Name)
		}
	}

	return names
}

// notifiesKubelet reports whether a plan has the file of a change, for which the kubelet is restarted.
func notifiesKubelet(p *evaluate.Plan, c compare.NodeChange) bool {
	return slices.ContainsFunc(p.Changes, func(f evaluate.FileChange) bool {
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

// subject is the item of a message or, if it names none, its summary.
type subject struct {
	origin.Extra
	summary string
}

// listPlaces returns the places of the messages about each subject.
func listPlaces(diags hcl.Diagnostics, own names) map[subject]map[string]bool {
	out := map[subject]map[string]bool{}
	for _, d := range diags {
		about := subjectOf(d, own)
		if out[about] == nil {
			out[about] = map[string]bool{}
		}
		out[about][fmt.Sprint(d.Subject)] = true
	}

	return out
}

func subjectOf(d *hcl.Diagnostic, own names) subject {
	about := subject{Extra: extra(d)}
	if about.Item == "" {
		about.summary = own.replace(d.Summary)
	}

	return about
}

// findAdded returns the messages of a plan about what another one of the same machine has no message about, or at fewer
// places: several may have one subject, as "No taint".
func findAdded(before, after hcl.Diagnostics, was, is names) hcl.Diagnostics {
	had, has := listPlaces(before, was), listPlaces(after, is)

	return slices.DeleteFunc(slices.Clone(after), func(d *hcl.Diagnostic) bool {
		about := subjectOf(d, is)
		return len(has[about]) <= len(had[about])
	})
}

// isWaiting reports whether a changed label or taint takes effect only when a node that has joined registers again.
func isWaiting(p *evaluate.Plan, changes []compare.NodeChange) bool {
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
