// Command detector-check is `prelet detectors check` for vendors without prelet: it starts a detector as prelet does
// and reports what to fix.
package main

import (
	"os"

	"github.com/prelet/prelet/plugins/conformance"
)

func main() {
	conformance.Shim()
	os.Exit(conformance.Command(os.Args[1:], os.Stdout, os.Stderr))
}
