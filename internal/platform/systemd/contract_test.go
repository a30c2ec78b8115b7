package systemd_test

import (
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// The state machine and systemd do not import one another: that the types which both spell are the same is checked
// here.
var (
	_ activation.Units = (*systemd.Conn)(nil)
	_ activation.Clock = systemd.Clock{}
)
