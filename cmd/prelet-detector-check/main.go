// Command prelet-detector-check is the conformance kit behind `prelet detectors check`, which starts it: it looks whether a
// detector keeps the protocol, and says what to fix.
package main

import (
	"os"

	"github.com/prelet/prelet/plugins/conformance"
)

func main() {
	conformance.Shim() // does not return in a process that was started to become the detector
	os.Exit(conformance.Command(os.Args[1:], os.Stdout, os.Stderr))
}
