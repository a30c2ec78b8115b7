package boot

import (
	"cmp"
	"slices"

	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/boot/identity"
	"github.com/prelet/prelet/internal/node"
)

// notify returns the kubelet's restart, and the units in the order in which they are acted on: systemd's first. It
// completes each change with the units that its file notifies.
func notify(
	n node.Node,
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
			c.Stays = findStaying(*c)
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
		restart.Because = append(restart.Because, "the identity of "+previous.Owner()+" is removed")
	}
	slices.SortStableFunc(units, func(a, b hostfiles.UnitChange) int {
		return cmp.Compare(hostfiles.RankUnit(n, a), hostfiles.RankUnit(n, b))
	})

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

// findStaying returns the effect of removed content that lasts until the next boot; "" for none.
func findStaying(c FileChange) string {
	p := hostfiles.FindSystemPath(c.File.Path)
	switch {
	case p == nil || c.File.Purpose != "file":
		return ""
	case c.Action == "delete":
		return p.DescribeRemoval()
	case c.Action != "update", c.Old.Private, len(c.File.Text.Secrets()) > 0:
		return ""
	}

	return p.DescribeChange(c.Old.Text, c.File.Text.Template())
}
