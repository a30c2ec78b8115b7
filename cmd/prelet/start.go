//go:build !man

package main

import (
	"os"

	"github.com/prelet/prelet/internal/buildversion"
)

func main() {
	abortOnThrow()
	version = buildversion.Or(version)
	os.Exit(runMain(os.Args[1:], os.Stdout, os.Stderr))
}
