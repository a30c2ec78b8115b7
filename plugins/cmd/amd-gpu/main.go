// Command amd-gpu is prelet's detector of AMD's GPUs. prelet starts it.
package main

import (
	"github.com/prelet/prelet/plugins/detectors/amdgpu"
	"github.com/prelet/prelet/plugins/sdk"
)

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(amdgpu.New(version)) }
