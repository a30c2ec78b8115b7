//go:build !linux

// Command program is for tests on Linux.
package main

func main() {}
