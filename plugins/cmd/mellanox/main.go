// Command mellanox is prelet's detector of ConnectX and BlueField. prelet starts it.
package main

import (
	"github.com/prelet/prelet/plugins/detectors/mellanox"
	"github.com/prelet/prelet/plugins/sdk"
)

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(mellanox.New(version)) }
