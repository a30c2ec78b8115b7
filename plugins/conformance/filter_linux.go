package conformance

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls returns the system calls that Run is asked about, with what they do in words; which of them exist differs by
// architecture. Reads of descriptors that are open are nobody's business.
func calls() map[int]string {
	m := map[int]string{
		unix.SYS_OPENAT: "open", unix.SYS_OPENAT2: "open", unix.SYS_EXECVE: "exec", unix.SYS_EXECVEAT: "exec",
		unix.SYS_SOCKET: "socket", unix.SYS_SOCKETPAIR: "socket", unix.SYS_CONNECT: "connect",
		unix.SYS_MKDIRAT: "mkdir", unix.SYS_UNLINKAT: "unlink", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
		unix.SYS_LINKAT: "link", unix.SYS_SYMLINKAT: "symlink", unix.SYS_MKNODAT: "mknod", unix.SYS_TRUNCATE: "truncate",
		unix.SYS_FCHMODAT: "chmod", unix.SYS_FCHOWNAT: "chown", unix.SYS_SETXATTR: "setxattr",
		unix.SYS_IO_URING_SETUP: "io_uring_setup", unix.SYS_PTRACE: "ptrace", unix.SYS_MEMFD_CREATE: "memfd_create", unix.SYS_SETSID: "setsid",
		unix.SYS_SETPGID: "setpgid", unix.SYS_UNSHARE: "unshare", unix.SYS_MOUNT: "mount", unix.SYS_BPF: "bpf",
		unix.SYS_PERF_EVENT_OPEN: "perf_event_open", unix.SYS_USERFAULTFD: "userfaultfd", unix.SYS_KEYCTL: "keyctl",
		unix.SYS_PROCESS_VM_READV: "process_vm_readv", unix.SYS_SHMGET: "shmget",
	}
	for nr, name := range oldCalls() {
		m[nr] = name
	}
	return m
}

// installWatch puts a filter on this thread, and on what it becomes, that asks about calls. It returns the descriptor
// that the questions come from.
func installWatch() (int, error) {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return -1, fmt.Errorf("no watch on %s", runtime.GOARCH)
	}
	var numbers []int
	for nr := range calls() {
		numbers = append(numbers, nr)
	}
	slices.Sort(numbers)
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		{Code: load, K: 4}, // seccomp_data.arch
		{Code: equal, Jt: 1, K: arch},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}, // another architecture's numbers mean other calls
		{Code: load, K: 0}, // seccomp_data.nr
	}
	for _, nr := range numbers {
		program = append(program, unix.SockFilter{Code: equal, Jf: 1, K: uint32(nr)}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	program = append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
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
