package confine

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/refused"
)

// Offsets in struct seccomp_data. Of an argument the low half is read: every argument that a filter compares is 32 bits
// wide in the kernel.
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

// processFilter holds for host and detector: this architecture only; stream sockets of the machine itself only, with
// buffers as large as the machine has them; no memory that is shared without a file or grows as a stack; no namespaces; and no call of the table that the conformance kit watches too.
func processFilter() program {
	var p program
	p.load(offsetArch)
	p.when(bpf.JumpNotEqual, nativeArch(), refuse)
	p.load(offsetNumber)
	if runtime.GOARCH == "amd64" {
		p.when(bpf.JumpGreaterOrEqual, x32, refuse)
	}
	for _, n := range slices.Sorted(maps.Keys(refused.Calls())) {
		p.when(bpf.JumpEqual, n, refuse)
	}
	for _, n := range slices.Sorted(maps.Keys(refused.Absent())) {
		p.when(bpf.JumpEqual, n, unknown)
	}
	// A pair too: one of datagrams needs no connect to send to any socket that there is, such as the journal's.
	for _, n := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		p.call(n, func(p *program) {
			p.load(offsetArgs)
			p.when(bpf.JumpNotEqual, unix.AF_UNIX, refuse)
			p.load(offsetArgs + 8)
			p.and(refused.SocketKind)
			p.when(bpf.JumpNotEqual, unix.SOCK_STREAM, refuse)
		})
	}
	p.call(unix.SYS_MMAP, func(p *program) {
		p.load(offsetArgs + 3*8)
		p.and(refused.StackMemory)
		p.when(bpf.JumpNotEqual, 0, refuse)
		p.load(offsetArgs + 3*8)
		p.and(refused.SharedMemory)
		p.when(bpf.JumpEqual, refused.SharedMemory, refuse)
	})
	p.call(unix.SYS_SETSOCKOPT, func(p *program) {
		p.load(offsetArgs + 8)
		p.when(bpf.JumpNotEqual, unix.SOL_SOCKET, permit)
		p.load(offsetArgs + 2*8)
		for _, option := range refused.BufferOptions() {
			p.when(bpf.JumpEqual, option, refuse)
		}
	})
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(offsetArgs)
		p.and(refused.Namespaces)
		p.when(bpf.JumpNotEqual, 0, refuse)
	})
	p.end(permit)
	return p
}

// connectFilter refuses connect(2).
func connectFilter() program {
	var p program
	p.load(offsetNumber)
	p.when(bpf.JumpEqual, unix.SYS_CONNECT, refuse)
	p.end(permit)
	return p
}

// program collects the instructions of a filter. Each test stands by itself: one that does not decide goes on with the
// next.
type program []bpf.Instruction

func (p *program) add(list ...bpf.Instruction) { *p = append(*p, list...) }

func (p *program) load(offset uint32) { p.add(bpf.LoadAbsolute{Off: offset, Size: 4}) }

func (p *program) and(mask uint32) { p.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask}) }

func (p *program) end(action uint32) { p.add(bpf.RetConstant{Val: action}) }

// when ends with an action if the test of what was loaded with v holds.
func (p *program) when(test bpf.JumpTest, v, action uint32) {
	p.add(bpf.JumpIf{Cond: test, Val: v, SkipFalse: 1}, bpf.RetConstant{Val: action})
}

// call looks at the arguments of one system call, and permits it if nothing refuses.
func (p *program) call(number uint32, args func(*program)) {
	var inner program
	args(&inner)
	inner.end(permit)

	p.add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(inner))})
	p.add(inner...)
}

// loadFilter adds a filter to the calling thread, or to all threads.
func loadFilter(p program, flags uintptr) error {
	if nativeArch() == 0 {
		return errors.New("no filter was written for " + runtime.GOARCH)
	}

	raw, err := bpf.Assemble(p)
	if err != nil {
		return err
	}

	filter := make([]unix.SockFilter, len(raw))
	for i, x := range raw {
		filter[i] = unix.SockFilter{Code: x.Op, Jt: x.Jt, Jf: x.Jf, K: x.K}
	}

	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d could not take it over", thread)
	}

	return nil
}
