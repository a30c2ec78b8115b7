// Command ovs is prelet's detector of Open vSwitch. prelet starts it.
package main

import (
	"github.com/prelet/prelet/plugins/detectors/ovs"
	"github.com/prelet/prelet/plugins/sdk"
)

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(ovs.New(version)) }
