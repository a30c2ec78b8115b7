//go:build !linux

package pluginhost

import "os"

// openTrusted opens a file. Where detectors cannot run, nothing is executed by what it says.
func openTrusted(path string) (*os.File, error) { return os.Open(path) }
