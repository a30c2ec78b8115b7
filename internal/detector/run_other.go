//go:build !linux

package pluginhost

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/internal/detector/wire"
)

func becomeSubreaper() error { return nil }

func (h *Host) run(context.Context, job) (wire.Reply, Trace, error) {
	return wire.Reply{}, Trace{}, denied("detectors run on Linux only")
}

// Pool is how many detectors can run at once with a user of their own.
func (h *Host) Pool() int { return 0 }
