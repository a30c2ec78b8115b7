package evaluate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/identity"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/stages"
)

// FileChange is one managed file: as it is, and as planned.
type FileChange struct {
	File   desired.File
	Old    tape.TargetAns
	Action string // create | update | delete | restore | keep | none
	Why    string // the reason of keep, delete and a change of mode or owner
	Drift  string // how it was edited since the last generation

	Outdated bool // a state of the kubelet's managers that does not fit this boot's machine
	// Notifies are the units that are restarted or reloaded when it changes: the kubelet's, and others.
	Notifies []string
	Stays    string // the effect of removed content that lasts until the next boot

	stored []string // the units that it notifies in the current generation, if the site no longer declares it
}

// Changes reports whether the file changes on the disk.
func (c FileChange) Changes() bool {
	return c.Action != "none" && c.Action != "keep"
}

// Planned returns the file with the mode and the owner that an existing one will have, where the site sets none.
func (c FileChange) Planned() desired.File {
	f := c.File
	before := findMetaBefore(c.Old)
	f.Mode = cmp.Or(f.Mode, before.Mode)
	f.Owner = cmp.Or(f.Owner, fmt.Sprintf("%d:%d", before.UID, before.GID))

	return f
}

// Mode returns the mode that the file will have: as declared, else as it is now, else that of a new file.
func (c FileChange) Mode() uint32 {
	switch {
	case c.File.Mode != 0:
		return c.File.Mode
	case len(c.File.Text.Secrets()) > 0:
		return 0o600
	case c.Old.Exists:
		return c.Old.Mode
	case c.File.Kind == desired.Directory:
		return 0o755
	}

	return 0o644
}

// Owner returns USER:GROUP that the file will have: as declared, else as it is now. A new file gets the owner of its
// folder when it is written; "" until then.
func (c FileChange) Owner() string {
	switch {
	case c.File.Owner != "":
		return c.File.Owner
	case c.Old.Exists && c.Old.Owner == "":
		return "root:root"
	}

	return c.Old.Owner
}

// Restart reports whether the kubelet must be restarted, and why.
type Restart struct {
	Unit    string   `json:"unit"`
	Needed  bool     `json:"needed"`
	Because []string `json:"because"`
}

// Changed is the result of diff: the difference between the disk and the finished node.
type Changed struct {
	Changes []FileChange // sorted by path
	Restart Restart
	Units   []hostfiles.UnitChange // other units that managed files notify, in the order in which they are acted on
	Drains  []string               // why the node must be drained before the kubelet is restarted; nil: it need not
}

// Need is the state of its node that a plan needs. The greatest one decides when it may be applied to a node with pods.
type Need string

// The needs, the greatest last.
const (
	NeedsNothing Need = "nothing" // nothing is restarted
	NeedsUnits   Need = "units"   // units other than the kubelet's are restarted
	NeedsKubelet Need = "kubelet" // the kubelet is restarted; pods run on
	NeedsDrain   Need = "drain"   // pods may be rejected when the kubelet is restarted
)

// Needs returns the greatest need of the changes.
func (c Changed) Needs() Need {
	isActedOn := func(u hostfiles.UnitChange) bool { return len(u.Because) > 0 }
	switch {
	case len(c.Drains) > 0:
		return NeedsDrain
	case c.Restart.Needed:
		return NeedsKubelet
	case slices.ContainsFunc(c.Units, isActedOn):
		return NeedsUnits
	}

	return NeedsNothing
}

// diff compares the managed files on the disk with the finished node.
//
// Inputs: the finished node, the previous identity, and what observe returned. Result: one change for each managed
// file, and whether the kubelet must be restarted. Fails with a managed file that cannot be read.
func diff(n desired.Node, previous *identity.Previous, o Observed) (Changed, Findings) {
	out := Changed{Drains: o.drains}
	for _, s := range slices.Concat(o.files, o.removed) {
		if s.failure == nil {
			out.Changes = append(out.Changes, s.FileChange)
		}
	}
	found := reportDeclared(o)
	found.add(out.addUndeclared(o))

	slices.SortStableFunc(out.Changes, func(a, b FileChange) int {
		return cmp.Compare(a.File.Path, b.File.Path)
	})
	out.Restart, out.Units = notify(n, previous, out.Changes)

	return out, found
}

// codeOfUnread returns the code of a managed file that cannot be read, and so not be written.
func codeOfUnread(failure *fault.Fault) fault.Code {
	if failure.Code == fault.NoAnswer {
		return fault.NoAnswer
	}

	return fault.CannotWrite
}

// reportDeclared reports the declared files that could not be read, and secrets that other users can read.
func reportDeclared(o Observed) (found Findings) {
	for _, s := range o.files {
		f, a := s.File, s.Old
		at := f.FindDeclaration()
		switch {
		case s.failure != nil:
			failed := s.failure.Raise(codeOfUnread(s.failure), "Cannot read "+f.Path)
			found.Report(stages.Diagnose(at, failed))
		case a.Exists && a.Dir && f.Kind == desired.Regular:
			found.Error(fault.CannotWrite, at, f.Path+" is a folder on this node",
				"A file cannot replace it. Remove the folder, or choose another path.")
		case a.Exists && !a.Dir && f.Kind == desired.Directory:
			found.Error(fault.CannotWrite, at, f.Path+" is not a folder on this node",
				"A folder cannot replace it. Remove the file, or choose another path.")
		default:
			found.add(warnLoose(s.FileChange))
			found.add(warnAttributes(s.FileChange))
		}
		if owner := o.owners[f.Path]; owner != "" {
			found.Warn(
				fault.SystemFile, at, f.Path+" is of package "+owner,
				"The next update of the package may replace the file, or stop with a question about it. "+
					"Write a drop-in instead if the program reads some.",
			)
		}
	}

	for _, s := range o.removed {
		if s.failure != nil { // of a previous identity: if it stayed, two machines would have one identity
			failed := s.failure.Raise(codeOfUnread(s.failure), "Cannot remove "+s.File.Path)
			found.Report(stages.Diagnose(hcl.Range{}, failed))
		}
	}

	return found
}

// addUndeclared adds the files of the current generation that the site no longer declares: they are removed or
// restored, unless they were edited since. A file that could not be read stays.
func (c *Changed) addUndeclared(o Observed) (found Findings) {
	for _, s := range o.undeclared {
		if s.failure != nil {
			continue
		}

		change := s.FileChange
		change.Why = "the site no longer declares it"
		if s.Action == "keep" {
			change.Why += ", but " + s.Why
			found.Warn(
				fault.Drift, hcl.Range{}, s.File.Path+" stays",
				"The site no longer declares it, but %s. Remove it by hand if it is not needed.", s.Why,
			)
		}
		c.Changes = append(c.Changes, change)
	}

	return found
}

// warnLoose warns of a secret that other users can read, or could until now: they still know it after the fix. If the
// mode is the one of the last generation, or there is none, the file has the secret only if its content is as planned.
func warnLoose(c FileChange) (found Findings) {
	f := c.File
	a := c.Old
	isSecret := len(f.Text.Secrets()) > 0 && f.Mode != 0
	isOfNode := f.Purpose == "kubelet-flags" // the site can have none there
	if !isSecret || isOfNode || !a.Exists || a.Dir {
		return found
	}

	isLoose := c.Action == "update" && a.Mode&^f.Mode&0o077 != 0
	switch {
	case isLoose && a.Drift != "":
		found.Warn(
			fault.Drift, f.FindDeclaration(), "Others could read "+f.Path,
			"It contains a secret, and its mode is %04o; applying the plan makes it %04o. "+
				"Find out who changed the mode, and replace the secret if others may have read it.",
			a.Mode, f.Mode,
		)
	case isLoose && a.Same:
		found.Warn(
			fault.Sensitive, f.FindDeclaration(), "Others could read "+f.Path,
			"It has the secret already, and its mode is %04o; applying the plan makes it %04o. "+
				"Replace the secret if others may have read it.",
			a.Mode, f.Mode,
		)
	}
	isOfGroup := a.GID != 0 && f.Mode&0o040 != 0
	switch {
	case f.Owner != "" || a.Own:
	case a.UID != 0:
		found.Warn(
			fault.Sensitive, f.FindDeclaration(), "A secret in a file of another user",
			"%s belongs to %s, who stays its owner and can read the secret in it. "+
				"Write owner = %q if that is intended, or owner = \"root:root\".",
			f.Path, formatOwner(a), formatOwner(a),
		)
	case isOfGroup:
		found.Warn(
			fault.Sensitive, f.FindDeclaration(), "A secret in a file of another group",
			"%s belongs to %s, and its mode %04o lets that group read the secret in it. "+
				"Write owner = %q if that is intended, or owner = \"root:root\".",
			f.Path, formatOwner(a), f.Mode, formatOwner(a),
		)
	}

	return found
}

// warnAttributes warns of the extended attributes of a file that its change loses, or that prevent it.
func warnAttributes(c FileChange) (found Findings) {
	if c.Action != "update" {
		return found
	}

	for _, name := range c.Old.Attributes {
		isLost, capability := nodefile.HowKept(name)
		at, summary := c.File.FindDeclaration(), c.File.Path+" has "+name
		switch {
		case isLost && capability == "":
			found.Warn(fault.CannotWrite, at, summary,
				"It is a signature of the present content, and the new file has none. Sign the file again after the "+
					"run.")
		case isLost:
			found.Warn(fault.CannotWrite, at, summary,
				"Only a process with %s sees it. prelet's units do not have that, so the new file has no such "+
					"attribute: set it again after the run.", capability)
		case capability != "":
			found.Warn(fault.CannotWrite, at, summary,
				"Only a process with %s may give it to the new file. prelet's units do not have that, and end with 40 "+
					"before they change anything. Remove it with setfattr -x %s %s, or write CapabilityBoundingSet=%s "+
					"into drop-ins of prelet.service, prelet-apply.service and prelet-verify.service.",
				capability, name, c.File.Path, capability)
		}
	}

	return found
}

// formatOwner returns USER:GROUP of a file on the disk, by name if it has one.
func formatOwner(a tape.TargetAns) string {
	ids := fmt.Sprintf("%d:%d", a.UID, a.GID)

	return cmp.Or(a.Owner, ids)
}

// compareTarget returns the change of one managed file.
func compareTarget(f desired.File, a tape.TargetAns) FileChange {
	c := FileChange{
		File:   f,
		Old:    a,
		Drift:  a.Drift,
		Action: "update",
	}
	if a.Uncompared != "" {
		c.Why = "it cannot be compared: " + a.Uncompared
	}

	before := findMetaBefore(a)
	mode := cmp.Or(f.Mode, before.Mode)
	keepsOwner := f.Owner != "" || before.UID == a.UID && before.GID == a.GID
	isSameMeta := mode == a.Mode && isSameOwner(f.Owner, a) && keepsOwner
	switch {
	case f.Kind == desired.Missing && !a.Exists:
		c.Action = "none"
	case f.Kind == desired.Missing:
		c.Action = "delete"
	case !a.Exists:
		c.Action = "create"
	case f.CreateOnly:
		c.Action = "none"
		c.Why = "it exists already"
	case f.Kind == desired.Directory && a.Dir && isSameMeta:
		c.Action = "none"
	case f.Kind == desired.Regular && !a.Dir && isSameMeta && isSameContent(f, a):
		c.Action = "none"
	case c.Why == "" && c.Drift == "": // the drift describes it otherwise
		c.Why = describeMeta(f.Owner, mode, a)
	}

	return c
}

// describeMeta returns how mode and owner of a file change; "" if they do not.
func describeMeta(owner string, mode uint32, a tape.TargetAns) string {
	var out []string
	if mode != a.Mode {
		out = append(out, fmt.Sprintf("mode %04o becomes %04o", a.Mode, mode))
	}
	if !isSameOwner(owner, a) {
		out = append(out, fmt.Sprintf("owner %s becomes %s", formatOwner(a), owner))
	}

	return strings.Join(out, ", ")
}

// isSameContent compares hashes. If the text has secrets or the file is private, the node has compared them.
func isSameContent(f desired.File, a tape.TargetAns) bool {
	if len(f.Text.Secrets()) > 0 || a.Private {
		return a.Same
	}
	h := sha256.Sum256([]byte(f.Text.Template()))

	return a.SHA256 == hex.EncodeToString(h[:])
}

// isSameOwner compares a planned owner, USER:GROUP of names or numbers, with the owner on the disk. "" keeps any
// owner.
func isSameOwner(owner string, a tape.TargetAns) bool {
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

// notify returns the kubelet's restart, and the units in the order in which they are acted on: systemd's first. It
// completes each change with the units that its file notifies.
func notify(
	n desired.Node,
	previous *identity.Previous,
	changes []FileChange,
) (Restart, []hostfiles.UnitChange) {
	restart := Restart{Unit: n.KubeletUnit()}
	var units []hostfiles.UnitChange

	for i := range changes {
		c := &changes[i]
		if c.File.Purpose == "identity" { // all of them are one reason, below
			c.Notifies = []string{restart.Unit}
			restart.Needed = true
			continue
		}

		because := ""
		if c.Changes() {
			because = c.File.Path + " " + describeAction(c.Action)
			c.Stays = hostfiles.FindStaying(c.File, c.Action, c.Old)
		}
		notified, isKubelet := hostfiles.FindNotified(n, c.File, c.stored)
		if isKubelet {
			c.Notifies = append(c.Notifies, restart.Unit)
		}
		if isKubelet && because != "" {
			restart.Needed = true
			restart.Because = append(restart.Because, because)
		}
		for _, u := range notified {
			c.Notifies = append(c.Notifies, u.Unit.Unit)
			reason := because
			if c.Action == "delete" && u.Action == hostfiles.ActionCreate {
				reason = "" // a removed file creates nothing
			}
			units = hostfiles.AddUnit(units, u, c.File.Path, reason)
		}
	}

	if previous != nil {
		restart.Because = append(restart.Because, previous.WhyRestart())
	}
	hostfiles.SortUnits(n, units)

	return restart, units
}

func describeAction(action string) string {
	switch action {
	case "create":
		return "is new"
	case "update":
		return "changes"
	case "restore":
		return "is restored"
	}

	return "is removed"
}
