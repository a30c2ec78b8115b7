package generation

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidSetID forbids this thread to set setuid and setgid, as RestrictSUIDSGID= does. The goroutine keeps the thread,
// which ends with it.
func forbidSetID(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()

	const errno = 0x50000 | uint32(unix.EPERM) // SECCOMP_RET_ERRNO
	const allow = 0x7fff0000                   // SECCOMP_RET_ALLOW
	const number, arguments = 0, 16            // offsets in seccomp_data
	var filter []unix.SockFilter
	for call, argument := range map[uint32]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2} {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: arguments + 8*argument},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0o6000, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: errno},
		)
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: allow})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}

	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		at := uintptr(unsafe.Pointer(&program))
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, at, 0, 0)
	}
	if err != nil {
		t.Skip("no seccomp filter here: ", err)
	}
}
