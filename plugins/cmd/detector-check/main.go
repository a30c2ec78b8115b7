// Command detector-check is `prelet detectors check` for who builds detectors and has no prelet at hand: it starts a
// detector as prelet does and says what to mend.
package main

import (
	"os"

	"github.com/prelet/prelet/plugins/conformance"
)

func main() {
	conformance.Shim()
	os.Exit(conformance.Command(os.Args[1:], os.Stdout, os.Stderr))
}
