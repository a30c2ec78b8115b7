//go:build !man

package main

import "os"

func main() {
	abortOnThrow()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
