//go:build !linux

package conformance

import (
	"errors"
	"io"
	"runtime"
)

// Shim does nothing here.
func Shim() {}

func (k *kit) run() {
	k.check("handshake", "It starts, and prints one line", Failed, "the check runs on Linux, as detectors do, and not on "+runtime.GOOS, "")
}

func ownUser() (int, io.Closer, error) { return 0, nil, errors.ErrUnsupported }
