package hostfiles

import (
	"cmp"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/stages"
)

// KubeletUnit returns the kubelet's unit as far as a site names it without a machine: the literal of its restart stage,
// or else kubelet.service.
func KubeletUnit(site *lang.Site) string {
	i := site.Stage(stages.RestartKubelet)
	if i == nil {
		return desired.DefaultUnit
	}

	return cmp.Or(literalUnit(i), desired.DefaultUnit)
}

// NotifiedUnits returns the other units of a site, as far as it names them without a machine, for each one.
func NotifiedUnits(site *lang.Site) (units []string) {
	for _, i := range site.OfType("restart") {
		if unit := literalUnit(i); unit != "" && i.Addr() != stages.RestartKubelet && i.When == nil {
			units = append(units, unit)
		}
	}

	return units
}

// literalUnit returns the unit of a restart stage, if it is a literal, or "".
func literalUnit(i *lang.Instance) string {
	attribute := i.Body.Attributes["unit"]
	if attribute == nil {
		return ""
	}
	unit, _ := value.LiteralText(attribute.Expr)

	return unit
}
