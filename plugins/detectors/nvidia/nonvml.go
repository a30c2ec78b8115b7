//go:build !linux || !cgo || !nvml

package nvidia

// buildLibrary returns none: go-nvml needs cgo, and a program without it runs everywhere.
func buildLibrary() library { return nil }
