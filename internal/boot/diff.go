package boot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Change is one managed file: as it is, and as it shall be.
type Change struct {
	File   node.File
	Old    world.TargetAns
	Action string // create | update | delete | restore | keep | none
	Why    string // of keep, delete and a change of mode or owner: in words
	Drift  string // how it was edited since the last generation

	Outdated bool // a state of the kubelet's managers that does not fit this boot's machine
	// Notifies are the units that are restarted or reloaded when it changes: the kubelet's, and others.
	Notifies []string
	Stays    string // what the change takes out of it and stays in force until the next boot
}

// Changes reports whether the file changes on the disk.
func (c Change) Changes() bool { return c.Action != "none" && c.Action != "keep" }

// Restart says whether the kubelet must be restarted, and why.
type Restart struct {
	Unit    string
	Needed  bool
	Because []string
}

// Changed is the result of diff: the difference between what is on the disk and what shall be.
type Changed struct {
	changes  []Change // sorted by path
	unjudged []string // managed files whose change is unknown, sorted
	restart  Restart
	units    []UnitChange
}

// diff compares what is on the disk with what shall be.
//
// Inputs: the finished node, the identity that is set aside, and what observe returned. Result: one change for each
// managed file, and whether the kubelet must be restarted. Fails with a managed file that cannot be looked at; a
// question that a recording was never asked makes the plan incomplete.
func diff(n node.Node, aside *Aside, o Observed) (Changed, Findings) {
	out := Changed{changes: o.listDeclared(n), unjudged: o.skipped}
	found := out.addDeclared(o)
	for i, c := range out.changes {
		if c.File.Purpose == purposeIdentity {
			out.changes[i].Why = "it is of " + aside.describeOwner()
		}
	}
	found = found.join(out.addUndeclared(o))

	slices.SortStableFunc(out.changes, func(a, b Change) int { return strings.Compare(a.File.Path, b.File.Path) })
	slices.Sort(out.unjudged)
	out.unjudged = slices.Compact(out.unjudged)
	stored := map[string][]string{}
	for _, s := range o.undeclared {
		stored[s.file.Path] = s.notify
	}
	out.restart, out.units = notify(n, aside, out.changes, stored)

	return out, found
}

// addDeclared adds the declared files that could not be looked at.
func (c *Changed) addDeclared(o Observed) (found Findings) {
	for _, s := range o.files {
		switch at := findDeclaration(s.file); {
		case s.isUnread():
			c.unjudged = append(c.unjudged, s.file.Path)
			found = found.join(reportUnread(at, s.file.Path))
		case s.err != nil:
			failed := s.answer.Fault.Raise(fault.CannotWrite, "Cannot look at "+s.file.Path)
			found.report(stages.Diagnose(at, failed))
		default:
			found.report(warnLoose(compareTarget(s.file, s.is))...)
		}
	}
	for _, s := range o.aside {
		switch {
		case s.isUnread():
			found = found.join(reportUnread(hcl.Range{}, s.file.Path))
		case s.err != nil: // if it stayed, two machines would have one identity
			failed := s.answer.Fault.Raise(fault.CannotWrite, "Cannot set "+s.file.Path+" aside")
			found.report(stages.Diagnose(hcl.Range{}, failed))
		}
	}
	for _, s := range o.states {
		if s.isUnread() {
			c.unjudged = append(c.unjudged, s.file.Path)
			found = found.join(reportUnread(hcl.Range{}, s.file.Path))
		}
	}

	return found
}

// addUndeclared adds the files of the current generation that the site does not declare any more: they are removed or
// restored, unless somebody edited them since. One that could not be looked at is kept as it is.
func (c *Changed) addUndeclared(o Observed) (found Findings) {
	if o.managed.isUnread() {
		question := []string{"managed"}
		found.Unknown = newUnknowns(question, partTargets)
		found.report(origin.NotRead(hcl.Range{}, "what the site declares no more", question))
	}

	for _, s := range o.undeclared {
		if s.isUnread() {
			c.unjudged = append(c.unjudged, s.file.Path)
			found = found.join(reportUnread(hcl.Range{}, s.file.Path))
		}
		if s.err != nil {
			continue
		}

		change := Change{File: s.file, Old: s.is, Action: s.action, Why: "the site does not declare it any more"}
		if s.action == "keep" {
			change.Why += ", but " + s.why
			found.report(origin.Warning(fault.Drift, hcl.Range{}, s.file.Path+" stays",
				"The site does not declare it any more, but %s. Remove it by hand if nobody needs it.", s.why))
		}
		c.changes = append(c.changes, change)
	}

	return found
}

// reportUnread returns the findings for a managed file that a recording was never asked for.
func reportUnread(at hcl.Range, path string) Findings {
	question := []string{"target " + path}

	return Findings{
		Diags:   hcl.Diagnostics{origin.NotRead(at, path, question)},
		Unknown: newUnknowns(question, partTargets),
	}
}

func describeAction(action string) string {
	return map[string]string{"create": "is new", "update": "changes", "delete": "goes", "restore": "is put back"}[action]
}

// findDeclaration returns where the site declares a file.
func findDeclaration(f node.File) hcl.Range {
	if len(f.Origins) == 0 {
		return hcl.Range{}
	}

	return f.Origins[0].Range
}

// warnLoose warns of a secret that others can read, or could until now: after the fix, it is still known to them.
func warnLoose(c Change) (out hcl.Diagnostics) {
	f, a := c.File, c.Old
	isSecret := len(f.Text.Secrets()) > 0 && f.Mode != 0
	if !isSecret || !a.Exists || a.Dir {
		return nil
	}
	if c.Action == "update" && a.Mode&^f.Mode&0o077 != 0 {
		out = append(out, origin.Warning(fault.Drift, findDeclaration(f), "Others could read "+f.Path,
			"A secret stands in it, and its mode is %04o; applying the plan makes it %04o. "+
				"Find out who loosened it, and replace the secret if they may have read it.", a.Mode, f.Mode))
	}
	if f.Owner == "" && a.UID != 0 {
		out = append(out, origin.Warning(fault.Sensitive, findDeclaration(f), "A secret in a file of another user",
			"%s belongs to %s, who keeps it, and can read the secret that is written there. Write owner = %q if that is meant, or owner = \"root:root\".",
			f.Path, formatOwner(a), formatOwner(a)))
	}

	return out
}

// formatOwner returns USER:GROUP of what is there, by name where there is one.
func formatOwner(a world.TargetAns) string {
	if a.Owner != "" {
		return a.Owner
	}
	return strconv.Itoa(a.UID) + ":" + strconv.Itoa(a.GID)
}

// compareTarget returns the change of one managed file from what is on the disk.
func compareTarget(f node.File, a world.TargetAns) (c Change) {
	c = Change{File: f, Old: a, Drift: a.Drift, Action: "update"}
	if a.Uncompared != "" {
		c.Why = "it cannot be compared: " + a.Uncompared
	}
	left := world.TargetMeta{Mode: a.Mode, UID: a.UID, GID: a.GID}
	if a.Left != nil {
		left = *a.Left
	}
	isSameMeta := isSameOwner(f.Owner, a) && (f.Owner != "" || left.UID == a.UID && left.GID == a.GID)
	if f.Mode != 0 {
		left.Mode = f.Mode
	}
	isSameMeta = isSameMeta && left.Mode == a.Mode

	defer func() {
		if c.Action == "update" && c.Why == "" && c.Drift == "" { // drift says it from there
			c.Why = describeMeta(f.Owner, left.Mode, a)
		}
	}()
	switch {
	case f.Kind == node.Missing && !a.Exists:
		c.Action = "none"
	case f.Kind == node.Missing:
		c.Action = "delete"
	case !a.Exists:
		c.Action = "create"
	case f.CreateOnly:
		c.Action, c.Why = "none", "it is there already"
	case f.Kind == node.Directory && a.Dir && isSameMeta:
		c.Action = "none"
	case f.Kind == node.Regular && !a.Dir && isSameMeta && isSameContent(f, a):
		c.Action = "none"
	}

	return c
}

// describeMeta returns how mode and owner of what is on the disk change; "" where they do not.
func describeMeta(owner string, mode uint32, a world.TargetAns) string {
	var out []string
	if mode != a.Mode {
		out = append(out, fmt.Sprintf("mode %04o becomes %04o", a.Mode, mode))
	}
	if !isSameOwner(owner, a) {
		out = append(out, fmt.Sprintf("owner %s becomes %s", formatOwner(a), owner))
	}

	return strings.Join(out, ", ")
}

// isSameContent compares hashes. Where the text has secrets or the file is private, whoever answered has compared it.
func isSameContent(f node.File, a world.TargetAns) bool {
	if len(f.Text.Secrets()) > 0 || a.Private {
		return a.Same
	}
	h := sha256.Sum256([]byte(f.Text.Template()))

	return a.SHA256 == hex.EncodeToString(h[:])
}

// isSameOwner compares a planned owner, USER:GROUP of names or numbers, with that on the disk. "" keeps any owner.
func isSameOwner(owner string, a world.TargetAns) bool {
	if owner == "" {
		return true
	}
	userName, groupName, _ := strings.Cut(a.Owner, ":")
	user, group, _ := strings.Cut(owner, ":")

	return isSameID(user, a.UID, userName) && isSameID(group, a.GID, groupName)
}

// isSameID compares a planned user or group with an ID and its name; name may be "".
func isSameID(planned string, id int, name string) bool {
	return planned == strconv.Itoa(id) || planned == name && name != "" || planned == "root" && id == 0
}
