//go:build linux && !amd64

package conformance

// oldCalls are those that newer architectures never had.
func oldCalls() map[int]string { return nil }

func isCreat(int) bool { return false }
