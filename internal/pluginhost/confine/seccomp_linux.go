package confine

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/refused"
)

// Offsets in struct seccomp_data. Of an argument the low half is looked at: all that are asked for are 32 bits wide in the kernel.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// x32 is the bit in the number of a system call of amd64's second table.
const x32 = 0x40000000

const (
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	permit  = unix.SECCOMP_RET_ALLOW
)

// nativeArch is what the kernel calls this program's architecture in a filter; 0 where it was not tried.
func nativeArch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	}
	return 0
}

// processFilter holds for host and detector: this architecture only; stream sockets of the machine itself only; no memory that
// is shared without a file; no namespaces; and no call of the table that the conformance kit watches too.
func processFilter() []unix.SockFilter {
	p := program{}
	p.load(offsetArch)
	p.unless(nativeArch(), refuse)
	p.load(offsetNumber)
	if runtime.GOARCH == "amd64" {
		p.atLeast(x32, refuse)
	}
	for _, n := range slices.Sorted(maps.Keys(refused.Calls())) {
		p.when(n, refuse)
	}
	p.when(refused.Clone3, unknown)
	// A pair too: one of datagrams needs no connect to send to any socket that there is, such as the journal's.
	for _, n := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		p.call(n, func(p *program) {
			p.load(offsetArgs)
			p.unless(unix.AF_UNIX, refuse)
			p.load(offsetArgs + 8)
			p.and(refused.SocketKind)
			p.unless(unix.SOCK_STREAM, refuse)
		})
	}
	p.call(unix.SYS_MMAP, func(p *program) {
		p.load(offsetArgs + 3*8)
		p.and(refused.SharedMemory)
		p.when(refused.SharedMemory, refuse)
	})
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(offsetArgs)
		p.and(refused.Namespaces)
		p.unless(0, refuse)
	})
	p.end(permit)
	return p.code
}

// connectFilter refuses connect(2).
func connectFilter() []unix.SockFilter {
	p := program{}
	p.load(offsetNumber)
	p.when(unix.SYS_CONNECT, refuse)
	p.end(permit)
	return p.code
}

// program assembles a filter. Each test stands by itself: one that does not decide goes on with the next.
type program struct{ code []unix.SockFilter }

func (p *program) emit(f unix.SockFilter) { p.code = append(p.code, f) }

func (p *program) load(offset uint32) {
	p.emit(unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (p *program) and(mask uint32) {
	p.emit(unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask})
}

func (p *program) end(action uint32) {
	p.emit(unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
}

// when ends with an action if what was loaded is v.
func (p *program) when(v, action uint32) {
	p.emit(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: v})
	p.end(action)
}

// unless ends with an action if what was loaded is not v.
func (p *program) unless(v, action uint32) {
	p.emit(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: v})
	p.end(action)
}

func (p *program) atLeast(v, action uint32) {
	p.emit(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: v})
	p.end(action)
}

// call looks at the arguments of one system call, and permits it if nothing refuses.
func (p *program) call(number uint32, args func(*program)) {
	inner := program{}
	args(&inner)
	inner.end(permit)
	p.emit(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(inner.code)), K: number})
	p.code = append(p.code, inner.code...)
}

// loadFilter adds a filter to the calling thread, or to all threads.
func loadFilter(code []unix.SockFilter, flags uintptr) error {
	if nativeArch() == 0 {
		return errors.New("no filter was written for " + runtime.GOARCH)
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d could not take it over", thread)
	}
	return nil
}
