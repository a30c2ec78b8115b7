// Command prelet-detector-check is the conformance kit. `prelet detectors check` starts it: it checks whether a
// detector follows the protocol, and reports what to fix.
package main

import (
	"os"

	"github.com/prelet/prelet/plugins/conformance"
)

func main() {
	conformance.Shim() // does not return in a process that was started to become the detector
	os.Exit(conformance.Command(os.Args[1:], os.Stdout, os.Stderr))
}
