// Package builtin is the list of stage types, in the order of the docs. Stage types do not register themselves, so the
// list can be read in one place. It must not add behaviour to a stage.
package builtin

import (
	"github.com/prelet/prelet/stages"
	"github.com/prelet/prelet/stages/detecthw"
	"github.com/prelet/prelet/stages/fetchca"
	"github.com/prelet/prelet/stages/fetchconfig"
	"github.com/prelet/prelet/stages/label"
	"github.com/prelet/prelet/stages/reserve"
	"github.com/prelet/prelet/stages/restart"
	"github.com/prelet/prelet/stages/taint"
	"github.com/prelet/prelet/stages/write"
)

// Stages lists every stage type.
func Stages() []stages.Stage {
	return []stages.Stage{
		fetchca.Stage{},
		fetchconfig.Stage{},
		detecthw.Stage{},
		reserve.Stage{},
		label.Stage{},
		taint.Stage{},
		write.Stage{},
		restart.Stage{},
	}
}
