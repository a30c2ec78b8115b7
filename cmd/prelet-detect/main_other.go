//go:build !linux

// Command prelet-detect runs one detector on Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "prelet-detect: detectors run on Linux only")
	os.Exit(70)
}
