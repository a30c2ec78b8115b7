//go:build linux && !amd64

package conformance

// oldPathCalls returns the system calls with a path that newer architectures do not have.
func oldPathCalls() map[int]pathCall { return nil }
