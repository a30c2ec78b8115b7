package fleets

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/fleet"
)

// A panic over one recording is the failure of that recording. A planner without an environment panics.
func TestPanicOverOneRecording(t *testing.T) {
	const recording = "../../../testdata/recordings/v1/base.prelet"
	p := &fleetPlanner{}

	planned, effects := p.planOne(t.Context(), recording)
	effect := effects[0]
	isFailed := effect.State == fleet.Failed && effect.Code == fault.Internal && effect.Source == recording
	if planned.Err == nil || !isFailed || !strings.Contains(effect.Reason, "a bug in prelet") {
		t.Errorf("got %v, %+v; want a failure with the code internal", planned.Err, effect)
	}
}
