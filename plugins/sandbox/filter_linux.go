package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// Results of a filter.
const (
	refused   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent    = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	permitted = unix.SECCOMP_RET_ALLOW
)

// Offsets in struct seccomp_data, in bytes. Of each argument the low half is loaded.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// x32 is the bit in the number of a system call of amd64's second table.
const x32 = 0x40000000

// nativeArch returns the kernel's name of this program's architecture, or 0 where the filter was not tested.
func nativeArch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	}

	return 0
}

// processFilter returns the filter that refuses the calls of Calls, and of some others by their arguments. Those of
// Absent fail as on a kernel without them. It permits all other calls. A foreign architecture is always refused,
// because its numbers mean other calls.
func processFilter() []bpf.Instruction {
	var f filter
	f.load(offsetArch)
	f.returnIf(bpf.JumpNotEqual, nativeArch(), refused)
	f.load(offsetNumber)
	if runtime.GOARCH == "amd64" {
		f.returnIf(bpf.JumpGreaterOrEqual, x32, refused)
	}

	for _, number := range slices.Sorted(maps.Keys(Absent())) {
		f.returnIf(bpf.JumpEqual, number, absent)
	}
	for _, number := range slices.Sorted(maps.Keys(Calls())) {
		f.returnIf(bpf.JumpEqual, number, refused)
	}

	// A pair of datagram sockets could send to any socket without connect(2), for example to the journal's.
	f.onCall(unix.SYS_SOCKET, checkSocket)
	f.onCall(unix.SYS_SOCKETPAIR, checkSocket)
	f.onCall(unix.SYS_BIND, checkBind)
	f.onCall(unix.SYS_MMAP, checkMmap)
	f.onCall(unix.SYS_FADVISE64, checkFadvise)
	f.onCall(unix.SYS_FCNTL, checkFcntl)
	f.onCall(unix.SYS_SETSOCKOPT, checkSetsockopt)
	f.onCall(unix.SYS_CLONE, checkClone)
	f.finish(permitted)

	return f.code
}

func checkSocket(f *filter) {
	f.loadArgument(0)
	f.returnIf(bpf.JumpNotEqual, unix.AF_UNIX, refused)
	f.loadArgument(1)
	f.mask(socketKind)
	f.returnIf(bpf.JumpNotEqual, unix.SOCK_STREAM, refused)
}

func checkBind(f *filter) {
	f.loadArgument(2)
	f.returnIf(bpf.JumpLessThan, contract.MinAddress, refused)
}

func checkMmap(f *filter) {
	f.loadArgument(3)
	f.mask(stackMemory | hugePages)
	f.returnIf(bpf.JumpNotEqual, 0, refused)
	f.loadArgument(3)
	f.mask(sharedMemory)
	f.returnIf(bpf.JumpEqual, sharedMemory, refused)
}

func checkFadvise(f *filter) {
	f.loadArgument(3)
	f.returnIf(bpf.JumpEqual, unix.FADV_DONTNEED, refused)
}

func checkFcntl(f *filter) {
	f.loadArgument(1)
	for _, command := range sharedCommands() {
		f.returnIf(bpf.JumpEqual, command, refused)
	}
}

func checkSetsockopt(f *filter) {
	f.loadArgument(1)
	f.returnIf(bpf.JumpNotEqual, unix.SOL_SOCKET, permitted)
	f.loadArgument(2)
	for _, option := range bufferOptions() {
		f.returnIf(bpf.JumpEqual, option, refused)
	}
}

func checkClone(f *filter) {
	f.loadArgument(0)
	f.mask(namespaces)
	f.returnIf(bpf.JumpNotEqual, 0, refused)
}

// filter collects instructions. Each test is independent: if it does not decide, the next instruction follows.
type filter struct{ code []bpf.Instruction }

func (f *filter) load(offset uint32) {
	f.code = append(f.code, bpf.LoadAbsolute{Off: offset, Size: 4})
}

func (f *filter) loadArgument(n uint32) {
	f.load(offsetArgs + 8*n)
}

func (f *filter) mask(bits uint32) {
	f.code = append(f.code, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: bits})
}

func (f *filter) finish(result uint32) {
	f.code = append(f.code, bpf.RetConstant{Val: result})
}

// returnIf ends the filter with a result if comparing the loaded word with v succeeds.
func (f *filter) returnIf(test bpf.JumpTest, v, result uint32) {
	f.code = append(f.code, bpf.JumpIf{
		Cond:      test,
		Val:       v,
		SkipFalse: 1,
	})
	f.finish(result)
}

// onCall adds checks of the arguments of one system call. The call is permitted if no check refuses it.
func (f *filter) onCall(number uint32, check func(*filter)) {
	var inner filter
	check(&inner)
	inner.finish(permitted)

	f.code = append(
		f.code,
		bpf.JumpIf{
			Cond:      bpf.JumpEqual,
			Val:       number,
			SkipFalse: uint8(len(inner.code)),
		},
	)
	f.code = append(f.code, inner.code...)
}

// connectFilter returns the filter that refuses connect(2).
func connectFilter() []bpf.Instruction {
	var f filter
	f.load(offsetNumber)
	f.returnIf(bpf.JumpEqual, unix.SYS_CONNECT, refused)
	f.finish(permitted)

	return f.code
}

// load adds a filter to the calling thread and the program that it executes, or with SECCOMP_FILTER_FLAG_TSYNC to all
// threads.
func load(code []bpf.Instruction, flags uintptr) error {
	if nativeArch() == 0 {
		return errors.New("no filter exists for " + runtime.GOARCH)
	}

	raw, err := bpf.Assemble(code)
	if err != nil {
		return err
	}

	instructions := make([]unix.SockFilter, len(raw))
	for i, x := range raw {
		instructions[i] = unix.SockFilter{
			Code: x.Op,
			Jt:   x.Jt,
			Jf:   x.Jf,
			K:    x.K,
		}
	}

	program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	// The address is taken inside of the call, because the variable may move before it.
	r, _, errno := unix.Syscall(
		//nolint:gosec // no wrapper exists
		unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)),
	)
	runtime.KeepAlive(instructions)
	switch {
	case errno != 0:
		return errno
	case r != 0:
		return fmt.Errorf("thread %d could not take the filter", r)
	}

	return nil
}
