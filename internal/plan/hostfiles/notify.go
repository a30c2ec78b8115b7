package hostfiles

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
)

// UnitChange is one unit other than the kubelet's, with the managed files that notify it.
type UnitChange struct {
	desired.Unit          // Stage is "" where no stage of the site names the unit
	IsSystem     bool     // of listSystemPaths: it applies others' files too, so its failure only degrades the boot
	Files        []string // managed files that notify it, sorted
	Because      []string // the changes that it is acted on for; empty: it is not
}

const (
	defaultUnitTimeout = 60_000 // milliseconds, as in the restart stage
	defaultUnitSettle  = 2_000
)

// FindNotified returns the units that a file notifies, and whether it notifies the kubelet. The site's `notify`
// decides; without it, the kubelet is notified of files that it reads, and systemd of files that it applies. stored
// are the units in the current generation, of a file that the site no longer declares.
func FindNotified(n desired.Node, f desired.File, stored []string) (units []UnitChange, isKubelet bool) {
	switch {
	case f.Notify != nil:
		return findNotifiedStages(n, f.Notify)
	case len(stored) > 0:
		return findStoredUnits(n, stored)
	case f.Purpose == "directory":
		return nil, false
	case f.Purpose != "file" || IsReadByKubelet(n, f.Path):
		return nil, true
	}

	if p := findSystemPath(f.Path); p != nil {
		units = []UnitChange{{Unit: makeDefaultUnit(p.Unit, p.Action), IsSystem: true}}
	}

	return units, false
}

// findNotifiedStages returns the units of restart stages.
func findNotifiedStages(n desired.Node, names []string) (units []UnitChange, isKubelet bool) {
	for _, name := range names {
		i := slices.IndexFunc(n.Units, func(u desired.Unit) bool {
			return u.Stage == name
		})
		switch {
		case i >= 0:
			units = append(units, UnitChange{Unit: n.Units[i]})
		case n.Activation != nil && n.Activation.Stage == name:
			isKubelet = true
		}
	}

	return units, isKubelet
}

// findStoredUnits returns the units of a generation's plan, each "ACTION UNIT".
func findStoredUnits(n desired.Node, stored []string) (units []UnitChange, isKubelet bool) {
	for _, words := range stored {
		action, unit, _ := strings.Cut(words, " ")
		i := slices.IndexFunc(n.Units, func(u desired.Unit) bool {
			return u.Unit == unit
		})
		switch {
		case unit == n.KubeletUnit():
			isKubelet = true
		case i >= 0:
			units = append(units, UnitChange{Unit: n.Units[i]})
		default:
			isSystem := slices.ContainsFunc(listSystemPaths(), func(p systemPath) bool {
				return p.Unit == unit
			})
			units = append(units, UnitChange{Unit: makeDefaultUnit(unit, action), IsSystem: isSystem})
		}
	}

	return units, isKubelet
}

func makeDefaultUnit(unit, action string) desired.Unit {
	return desired.Unit{
		Unit:          unit,
		Action:        action,
		TimeoutMillis: defaultUnitTimeout,
		SettleMillis:  defaultUnitSettle,
	}
}

// AddUnit adds a unit that a file notifies. because is the change that it is acted on for; "": none.
func AddUnit(units []UnitChange, u UnitChange, file, because string) []UnitChange {
	i := slices.IndexFunc(units, func(x UnitChange) bool {
		return x.Unit.Unit == u.Unit.Unit
	})
	if i < 0 {
		i = len(units)
		units = append(units, u)
	}
	units[i].Files = append(units[i].Files, file)
	if because != "" {
		units[i].Because = append(units[i].Because, because)
	}

	return units
}

// SortUnits sorts units as they are acted on: systemd's in the order of the table, then those of the site in its order,
// then units that the site no longer names.
func SortUnits(n desired.Node, units []UnitChange) {
	slices.SortStableFunc(units, func(a, b UnitChange) int { return cmp.Compare(rankUnit(n, a), rankUnit(n, b)) })
}

func rankUnit(n desired.Node, u UnitChange) int {
	all := listSystemPaths()
	isSame := func(p systemPath) bool {
		return u.IsSystem && p.Unit == u.Unit.Unit
	}
	if i := slices.IndexFunc(all, isSame); i >= 0 {
		return i
	}
	if i := slices.IndexFunc(n.Units, func(x desired.Unit) bool {
		return x.Unit == u.Unit.Unit
	}); i >= 0 {
		return len(all) + i
	}

	return len(all) + len(n.Units)
}

// CheckUnits checks the units of a site together.
func CheckUnits(n desired.Node) hcl.Diagnostics {
	const most = 16
	var found origin.Collector
	if len(n.Units) > most {
		found.Error(
			fault.Limit, n.Units[most].Range, "Too many units",
			"This is number %d; a site may restart or reload %d units in addition to the kubelet's.", most+1, most,
		)
	}

	for i, u := range n.Units {
		if u.Unit == n.KubeletUnit() {
			found.Error(
				fault.Conflict, u.Range, "The kubelet's unit belongs to stage \"restart\" \"kubelet\"",
				"Only the stage named \"kubelet\" acts on %s. Give this stage that name, "+
					"and leave `unit` out or as it is.",
				u.Unit,
			)
		}

		isSame := func(x desired.Unit) bool {
			return x.Unit == u.Unit
		}
		if first := slices.IndexFunc(n.Units[:i], isSame); first >= 0 {
			found.Error(
				fault.Conflict, u.Range, "Two stages for "+u.Unit,
				"The first is restart.%s, at %s. Remove one of them; any number of files may notify one stage.",
				n.Units[first].Stage, origin.Place(n.Units[first].Range),
			)
		}
	}

	return found.Diags
}

// NewStoredFile returns the entry of a file of a node in its stored plan.
func NewStoredFile(n desired.Node, f desired.File) desired.StoredFile {
	out := desired.StoredFile{Path: f.Path, Purpose: f.Purpose}
	if f.Notify == nil {
		return out
	}

	units, isKubelet := FindNotified(n, f, nil)
	for _, u := range units {
		out.Notify = append(out.Notify, u.Action+" "+u.Unit.Unit)
	}
	if isKubelet {
		out.Notify = append(out.Notify, "restart "+n.KubeletUnit())
	}

	return out
}
