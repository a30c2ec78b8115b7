// Command lldp is prelet's detector of LLDP neighbours. prelet starts it.
package main

import (
	"github.com/prelet/prelet/plugins/detectors/lldp"
	"github.com/prelet/prelet/plugins/sdk"
)

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(lldp.New(version)) }
