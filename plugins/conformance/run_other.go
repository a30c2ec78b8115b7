//go:build !linux

package conformance

import (
	"context"
	"errors"
)

// Shim does nothing, because detectors run on Linux only.
func Shim() {}

func run(_ context.Context, program string, _ RunOptions) (Findings, error) {
	return Findings{Program: program}, errors.New("detectors can be checked on Linux only")
}
