// Command nvidia is prelet's detector of NVIDIA's GPUs. prelet starts it. Built with cgo and the tag nvml it asks
// NVML.
package main

import (
	"github.com/prelet/prelet/plugins/detectors/nvidia"
	"github.com/prelet/prelet/plugins/sdk"
)

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(nvidia.New(version)) }
