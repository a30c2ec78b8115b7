//go:build !linux

package detector

import "os"

// openTrusted opens a file. Detectors cannot run here, so its content is never executed.
func openTrusted(path string) (*os.File, error) {
	return os.Open(path)
}
