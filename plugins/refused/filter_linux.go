package refused

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
	RefuseResult = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	AbsentResult = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	permitted    = unix.SECCOMP_RET_ALLOW
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

// Filter returns a seccomp filter that returns refuse for each call that Call reports, absent for the calls of
// Absent, and refuse for the numbers in watched. It permits all other calls. A foreign architecture is always
// refused, because its numbers mean other calls.
func Filter(refuse, absent uint32, watched ...uint32) []bpf.Instruction {
	f := filter{refuse: refuse}
	f.load(offsetArch)
	f.returnIf(bpf.JumpNotEqual, nativeArch(), RefuseResult)
	f.load(offsetNumber)
	if runtime.GOARCH == "amd64" {
		f.returnIf(bpf.JumpGreaterOrEqual, x32, RefuseResult)
	}

	for _, number := range slices.Sorted(maps.Keys(Absent())) {
		f.returnIf(bpf.JumpEqual, number, absent)
	}
	for _, number := range slices.Concat(slices.Sorted(maps.Keys(Calls())), watched) {
		f.returnIf(bpf.JumpEqual, number, refuse)
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
	f.returnIf(bpf.JumpNotEqual, unix.AF_UNIX, f.refuse)
	f.loadArgument(1)
	f.mask(socketKind)
	f.returnIf(bpf.JumpNotEqual, unix.SOCK_STREAM, f.refuse)
}

func checkBind(f *filter) {
	f.loadArgument(2)
	f.returnIf(bpf.JumpLessThan, contract.MinAddress, f.refuse)
}

func checkMmap(f *filter) {
	f.loadArgument(3)
	f.mask(stackMemory | hugePages)
	f.returnIf(bpf.JumpNotEqual, 0, f.refuse)
	f.loadArgument(3)
	f.mask(sharedMemory)
	f.returnIf(bpf.JumpEqual, sharedMemory, f.refuse)
}

func checkFadvise(f *filter) {
	f.loadArgument(3)
	f.returnIf(bpf.JumpEqual, unix.FADV_DONTNEED, f.refuse)
}

func checkFcntl(f *filter) {
	f.loadArgument(1)
	for _, command := range sharedCommands() {
		f.returnIf(bpf.JumpEqual, command, f.refuse)
	}
}

func checkSetsockopt(f *filter) {
	f.loadArgument(1)
	f.returnIf(bpf.JumpNotEqual, unix.SOL_SOCKET, permitted)
	f.loadArgument(2)
	for _, option := range bufferOptions() {
		f.returnIf(bpf.JumpEqual, option, f.refuse)
	}
}

func checkClone(f *filter) {
	f.loadArgument(0)
	f.mask(namespaces)
	f.returnIf(bpf.JumpNotEqual, 0, f.refuse)
}

// filter collects instructions. Each test is independent: if it does not decide, the next instruction follows.
type filter struct {
	refuse uint32
	code   []bpf.Instruction
}

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
	inner := filter{refuse: f.refuse}
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

// Load adds a filter to the calling thread, or with SECCOMP_FILTER_FLAG_TSYNC to all threads. The result is the
// kernel's: with SECCOMP_FILTER_FLAG_NEW_LISTENER the descriptor of the listener.
func Load(code []bpf.Instruction, flags uintptr) (result int, err error) {
	if nativeArch() == 0 {
		return 0, errors.New("no filter exists for " + runtime.GOARCH)
	}

	raw, err := bpf.Assemble(code)
	if err != nil {
		return 0, err
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
		return 0, errno
	case r != 0 && flags&unix.SECCOMP_FILTER_FLAG_TSYNC != 0:
		return 0, fmt.Errorf("thread %d could not take the filter", r)
	}

	return int(r), nil
}
