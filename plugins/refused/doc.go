// Package refused is what the sandbox of a node refuses to every detector, whatever its site grants: one table. The sandbox
// enforces it (prelet's internal/detector/sandbox), the conformance kit watches for it, and a test of each holds its
// filter of system calls against Call. It touches nothing.
//
// It is there on Linux only, as detectors are.
package refused
