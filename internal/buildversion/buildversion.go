// Package buildversion finds the version of a program that `go install MODULE@VERSION` has built. It reads only the
// running program.
package buildversion

import (
	"runtime/debug"
	"strings"
)

// Or returns the version of the main module, without its "v", or linked for a program that was built in a checkout.
func Or(linked string) string {
	b, ok := debug.ReadBuildInfo()
	isDownloaded := ok && b.Main.Sum != ""
	if !isDownloaded {
		return linked
	}

	return strings.TrimPrefix(b.Main.Version, "v")
}
