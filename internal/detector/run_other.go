//go:build !linux

package detector

import (
	"context"

	"github.com/prelet/prelet/internal/detector/wire"
)

func becomeSubreaper() error { return nil }

func (h *Host) run(context.Context, job) (wire.Reply, Trace, error) {
	return wire.Reply{}, Trace{}, denied("detectors run on Linux only")
}
