// Package refused lists the system calls that the sandbox of a node refuses to every detector, whatever its site
// grants, and makes the seccomp filter that refuses them. prelet's sandbox (internal/detector/sandbox) enforces the
// filter, and the conformance kit reports the same calls. Apart from Load, which filters the calling thread, it
// changes nothing.
//
// It exists on Linux only, as detectors do.
package refused
