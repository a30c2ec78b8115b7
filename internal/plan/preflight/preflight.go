// Package preflight asks a node for everything that apply needs, before anything is changed: owners of files, units,
// writable folders. It warns of secrets that others can read.
package preflight

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/hostfiles"
)

type checker struct {
	origin.Collector

	tape *tape.Tape
	node desired.Node
}

// Check asks the node about what apply needs: whether the owners of files exist, whether prelet's own unit
// may write where files are planned, and whether notified units exist and may be restarted.
//
// Without an answer (a recording that was never asked, a node whose systemd does not answer) it reports nothing,
// and apply reports the failure.
func Check(ctx context.Context, answers *tape.Tape, n desired.Node) origin.Collector {
	var planned []desired.File
	for _, f := range n.Files {
		if f.Kind != desired.Missing {
			planned = append(planned, f)
		}
	}

	c := checker{tape: answers, node: n}
	c.checkOwners(ctx, planned)
	c.checkWritable(ctx, planned)
	c.checkKubeletUnit(ctx)
	for _, u := range n.Units {
		c.checkUnit(ctx, u)
	}
	c.checkCredentials()
	c.checkPublicSecrets()

	return c.Collector
}

func (c *checker) checkOwners(ctx context.Context, files []desired.File) {
	for _, f := range files {
		if !hasName(f.Owner) {
			continue
		}
		_, ans, err := tape.Owner.Ask(ctx, c.tape, tape.OwnerReq{Owner: f.Owner})
		if err != nil && ans.Code() == fault.Absent {
			c.Error(
				fault.CannotWrite, f.OwnerRange, "The owner of "+f.Path+" does not exist",
				"%s on this node. Write a user and a group that the image has, or numbers.", ans.Why(),
			)
		}
	}
}

// hasName reports whether an owner, USER:GROUP, has a name that may be missing on a node.
func hasName(owner string) bool {
	isName := func(id string) bool {
		return id != "root" && strings.Trim(id, "0123456789") != ""
	}

	return slices.ContainsFunc(strings.Split(owner, ":"), isName)
}

func (c *checker) checkWritable(ctx context.Context, files []desired.File) {
	isElsewhere := func(f desired.File) bool {
		return !desired.IsWritable(f.Path, nil)
	}
	if !slices.ContainsFunc(files, isElsewhere) {
		return
	}

	unit, _, _ := tape.Unit.Ask(ctx, c.tape, tape.UnitReq{Name: "prelet.service"}) // a failure leaves it empty
	for _, f := range files {
		if unit.Strict && !desired.IsWritable(f.Path, unit.Writable) {
			c.Error(
				fault.CannotWrite, f.FindDeclaration(), "prelet.service may not write "+f.Path,
				"%s", desired.WhyReadOnly(f.Path),
			)
		}
	}
}

// checkKubeletUnit warns of a kubelet's unit that cannot start: apply refuses to stop its kubelet then. Files of the
// unit that are planned, and a planned program, may end that.
func (c *checker) checkKubeletUnit(ctx context.Context) {
	unit := c.node.KubeletUnit()
	a, _, err := tape.Unit.Ask(ctx, c.tape, tape.UnitReq{Name: unit, Start: true})
	isPlanned := func(f desired.File) bool {
		return a.Start != nil && (f.Path == a.Start.Words[0] ||
			a.Start.Missing != "" && strings.HasPrefix(f.Path+"/", a.Start.Missing+"/"))
	}
	code := fault.Systemd
	var summary, next string

	switch {
	case err != nil:
		return
	case a.Load == "masked":
		summary = unit + " is masked on this node"
		next = "systemctl unmask " + unit
	case len(hostfiles.ListUnitFiles(c.node)) > 0 || slices.ContainsFunc(c.node.Files, isPlanned):
		return
	case a.Load == "not-found":
		summary = unit + " does not exist on this node"
		next = "Install its package"
	case a.Refused != "":
		summary = "systemd refuses " + unit + ": " + a.Refused
		next = "Correct the unit (systemctl cat " + unit + ")"
	case a.Start != nil && a.Start.Broken != "":
		code = fault.KubeletMachine
		summary = unit + " cannot start: " + a.Start.Broken
		next = "Install what is missing, or correct the unit (systemctl cat " + unit + ")"
	default:
		return
	}

	c.Degrade(code, summary)
	c.Warn(
		code, hcl.Range{}, summary,
		"A run that changes files is refused before it stops the kubelet. %s.", next,
	)
}

// checkUnit warns of a unit that apply cannot restart or reload; the boot is degraded then.
func (c *checker) checkUnit(ctx context.Context, u desired.Unit) {
	a, _, err := tape.Unit.Ask(ctx, c.tape, tape.UnitReq{Name: u.Unit})
	code := fault.UnitMissing
	var summary, next string

	switch {
	case err != nil:
		return
	case a.Load == "not-found":
		summary = u.Unit + " does not exist on this node"
		next = "Install the unit"
	case a.Load == "masked":
		summary = u.Unit + " is masked on this node"
		next = "Unmask the unit"
	case slices.Contains(a.Refuses, u.Action):
		code = fault.UnitRefuses
		summary = "systemd refuses to restart " + u.Unit + " by hand"
		next = `Write action = "reload"`
		if slices.Contains(a.Refuses, "reload") {
			next = "Write RefuseManualStart=no and RefuseManualStop=no below [Unit] in a drop-in of the unit"
		}
	default:
		return
	}

	c.Degrade(code, summary)
	c.Warn(
		code, u.Range, summary,
		"Files that notify stage.restart.%s are written, and the unit is not restarted or reloaded. "+
			"%s, or leave the stage out on such machines: when = …", u.Stage, next,
	)
}
