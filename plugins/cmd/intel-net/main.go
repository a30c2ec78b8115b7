// Command intel-net is prelet's detector of Intel's network cards. prelet starts it.
package main

import (
	"github.com/prelet/prelet/plugins/detectors/intelnet"
	"github.com/prelet/prelet/plugins/sdk"
)

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(intelnet.New(version)) }
