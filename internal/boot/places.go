package boot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// checkOnNode asks the node what only it can tell of what apply is going to need: whether the owners of files and the
// units that files notify are there and may be restarted, and whether prelet's own unit may write where files are planned.
//
// A recording that was never asked, or a node whose systemd does not answer, says nothing against the plan: apply finds
// it out as it did before.
func checkOnNode(ctx context.Context, tape *world.Tape, n node.Node) (found Findings) {
	var writer *world.UnitAns

	for _, f := range n.Files {
		if hasName(f.Owner) && f.Kind != node.Missing {
			_, ans, err := world.Owner.Ask(ctx, tape, world.OwnerReq{Owner: f.Owner})
			if err != nil && ans.Code() == fault.Absent {
				found.report(origin.Error(fault.CannotWrite, f.OwnerRange, "No such owner of "+f.Path,
					"%s on this node. Name a user and a group that the image has, or use numbers.", ans.Why()))
			}
		}
		if node.IsWritable(f.Path, nil) || f.Kind == node.Missing {
			continue
		}
		if writer == nil {
			a, _, _ := world.UnitOf.Ask(ctx, tape, world.UnitReq{Name: "prelet.service"}) // a failure leaves it empty
			writer = &a
		}
		if writer.Strict && !node.IsWritable(f.Path, writer.Writable) {
			found.report(origin.Error(fault.CannotWrite, findDeclaration(f), "prelet.service may not write "+f.Path,
				"%s", node.WhyReadOnly(f.Path)))
		}
	}

	for _, u := range n.Units {
		a, _, err := world.UnitOf.Ask(ctx, tape, world.UnitReq{Name: u.Unit})

		code := fault.UnitMissing
		var summary, next string

		switch {
		case err != nil:
			continue
		case a.Load == "not-found":
			summary = fmt.Sprintf("There is no %s on this node", u.Unit)
			next = "Install the unit"
		case a.Load == "masked":
			summary = u.Unit + " is masked on this node"
			next = "Unmask the unit"
		case slices.Contains(a.Refuses, u.Action):
			code = fault.UnitRefuses
			summary = fmt.Sprintf("systemd refuses to restart %s by hand", u.Unit)
			next = "Write RefuseManualStart=no and RefuseManualStop=no below [Unit] in a drop-in of it"
			if !slices.Contains(a.Refuses, "reload") {
				next = `Write action = "reload"`
			}
		default:
			continue
		}

		found.degrade(code, summary)
		found.report(origin.Warning(code, u.Range, summary, "Files that notify stage.restart.%s are written, and nothing "+
			"follows. %s, or leave the stage out where this is so: when = …", u.Stage, next))
	}

	return found
}

// hasName reports whether an owner, USER:GROUP, has a name that a node may lack.
func hasName(owner string) bool {
	for _, id := range strings.Split(owner, ":") {
		if id != "root" && strings.Trim(id, "0123456789") != "" {
			return true
		}
	}

	return false
}
