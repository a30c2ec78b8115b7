package conformance

import "golang.org/x/sys/unix"

// oldPathCalls returns the system calls with a path that newer architectures do not have.
func oldPathCalls() map[int]pathCall {
	return map[int]pathCall{
		unix.SYS_OPEN:  {"open", noFolder, 0},
		unix.SYS_MKDIR: {"mkdir", noFolder, 0},
	}
}
