package conformance

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/refused"
)

// calls returns the system calls that Run is asked about, with what they do in words; which of them exist differs by
// architecture. Reads of descriptors that are open are nobody's business.
func calls() map[int]string {
	m := map[int]string{
		unix.SYS_OPENAT: "open", unix.SYS_OPENAT2: "open", unix.SYS_EXECVE: "exec", unix.SYS_EXECVEAT: "exec",
		unix.SYS_SOCKET: "socket", unix.SYS_SOCKETPAIR: "socket", unix.SYS_CONNECT: "connect",
		unix.SYS_MKDIRAT: "mkdir", unix.SYS_UNLINKAT: "unlink", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
		unix.SYS_LINKAT: "link", unix.SYS_SYMLINKAT: "symlink", unix.SYS_MKNODAT: "mknod", unix.SYS_TRUNCATE: "truncate",
		unix.SYS_FCHMODAT: "chmod", unix.SYS_FCHOWNAT: "chown",
	}
	for nr, name := range oldCalls() {
		m[nr] = name
	}
	for nr, name := range refused.Calls() {
		m[int(nr)] = name
	}
	for nr, name := range refused.Absent() {
		m[int(nr)] = name
	}
	return m
}

// filter is the program that asks about calls, and about those of clone, mmap and setsockopt that are refused for their arguments: of
// all the others of these three there are too many to ask.
func filter(arch uint32) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K

		number, architecture, arguments = 0, 4, 16 // in struct seccomp_data
	)
	ask, pass := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
	program := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, Jt: 1, K: arch},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}, // another architecture's numbers mean other calls
		{Code: load, K: number},
	}
	for _, nr := range slices.Sorted(maps.Keys(calls())) {
		program = append(program, unix.SockFilter{Code: equal, Jf: 1, K: uint32(nr)}, ask)
	}
	program = append(program,
		unix.SockFilter{Code: equal, Jf: 9, K: unix.SYS_MMAP},
		unix.SockFilter{Code: load, K: arguments + 3*8}, unix.SockFilter{Code: and, K: refused.StackMemory},
		unix.SockFilter{Code: equal, Jt: 1}, ask,
		unix.SockFilter{Code: load, K: arguments + 3*8}, unix.SockFilter{Code: and, K: refused.SharedMemory},
		unix.SockFilter{Code: equal, Jf: 1, K: refused.SharedMemory}, ask, pass)
	options := refused.BufferOptions()
	program = append(program,
		unix.SockFilter{Code: equal, Jf: uint8(5 + 2*len(options)), K: unix.SYS_SETSOCKOPT},
		unix.SockFilter{Code: load, K: arguments + 8}, unix.SockFilter{Code: equal, Jt: 1, K: unix.SOL_SOCKET}, pass,
		unix.SockFilter{Code: load, K: arguments + 2*8})
	for _, option := range options {
		program = append(program, unix.SockFilter{Code: equal, Jf: 1, K: option}, ask)
	}
	return append(program,
		pass,
		unix.SockFilter{Code: equal, Jf: 5, K: unix.SYS_CLONE},
		unix.SockFilter{Code: load, K: arguments}, unix.SockFilter{Code: and, K: refused.Namespaces},
		unix.SockFilter{Code: equal, Jt: 1}, ask, pass,
		pass)
}

// installWatch puts a filter on this thread, and on what it becomes, that asks about calls. It returns the descriptor
// that the questions come from.
func installWatch() (int, error) {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return -1, fmt.Errorf("no watch on %s", runtime.GOARCH)
	}
	program := filter(arch)
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// Without the second flag (Linux 5.19) a signal makes a call ask twice, and Go's scheduler sends many.
	const listener, killable = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listener|killable, uintptr(unsafe.Pointer(&p)))
	if errno == unix.EINVAL {
		fd, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listener, uintptr(unsafe.Pointer(&p)))
	}
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}
