package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"math"
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

// argumentCheck refuses a system call if the comparison of one argument succeeds, of which only the bits of the mask
// count.
type argumentCheck struct {
	call, argument, mask uint32
	test                 bpf.JumpTest
	value                uint32
}

// checks returns the checks of arguments of calls that are permitted otherwise.
func checks() []argumentCheck {
	const whole = math.MaxUint32
	list := []argumentCheck{
		{unix.SYS_BIND, 2, whole, bpf.JumpLessThan, contract.MinAddress},
		{unix.SYS_MMAP, 3, stackMemory | hugePages, bpf.JumpNotEqual, 0},
		{unix.SYS_MMAP, 3, sharedMemory, bpf.JumpEqual, sharedMemory},
		{unix.SYS_FADVISE64, 3, whole, bpf.JumpEqual, unix.FADV_DONTNEED},
		{unix.SYS_CLONE, 0, namespaces, bpf.JumpNotEqual, 0},
		{unix.SYS_PRLIMIT64, 0, whole, bpf.JumpNotEqual, 0}, // of other processes of its user
	}
	// A pair of datagram sockets could send to any socket without connect(2), for example to the journal's.
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		list = append(
			list,
			argumentCheck{call, 0, whole, bpf.JumpNotEqual, unix.AF_UNIX},
			argumentCheck{call, 1, socketKind, bpf.JumpNotEqual, unix.SOCK_STREAM},
		)
	}
	for _, command := range sharedCommands() {
		list = append(list, argumentCheck{unix.SYS_FCNTL, 1, whole, bpf.JumpEqual, command})
	}
	for _, command := range ownerCommands() {
		list = append(list, argumentCheck{unix.SYS_IOCTL, 1, whole, bpf.JumpEqual, command})
	}
	for _, option := range bufferOptions() { // at any level: Unix sockets have options of SOL_SOCKET only
		list = append(list, argumentCheck{unix.SYS_SETSOCKOPT, 2, whole, bpf.JumpEqual, option})
	}

	return list
}

// processFilter returns the filter that refuses the calls of Calls, and of some others by their arguments. Those of
// Absent fail as on a kernel without them. It permits all other calls. A foreign architecture is always refused,
// because its numbers mean other calls.
func processFilter() []bpf.Instruction { return makeFilter(Calls()) }

// makeFilter returns the filter that refuses some calls, and others by their arguments.
func makeFilter(calls map[uint32]string) []bpf.Instruction {
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
	for _, number := range slices.Sorted(maps.Keys(calls)) {
		f.returnIf(bpf.JumpEqual, number, refused)
	}
	for _, c := range checks() {
		f.add(c)
	}

	return append(f, bpf.RetConstant{Val: permitted})
}

// filter collects instructions. Each test is independent: if it does not decide, the next instruction follows.
type filter []bpf.Instruction

func (f *filter) load(offset uint32) {
	*f = append(*f, bpf.LoadAbsolute{Off: offset, Size: 4})
}

// returnIf ends the filter with a result if comparing the loaded word with v succeeds.
func (f *filter) returnIf(test bpf.JumpTest, v, result uint32) {
	*f = append(
		*f,
		bpf.JumpIf{Cond: test, Val: v, SkipFalse: 1},
		bpf.RetConstant{Val: result},
	)
}

// add adds a check. Other calls skip its instructions.
func (f *filter) add(c argumentCheck) {
	f.load(offsetNumber)
	*f = append(*f, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.call, SkipTrue: 4})
	f.load(offsetArgs + 8*c.argument)
	*f = append(*f, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask})
	f.returnIf(c.test, c.value, refused)
}

// connectFilter returns the filter that refuses connect(2).
func connectFilter() []bpf.Instruction {
	var f filter
	f.load(offsetNumber)
	f.returnIf(bpf.JumpEqual, unix.SYS_CONNECT, refused)

	return append(f, bpf.RetConstant{Val: permitted})
}

// threadFilter returns the filter that refuses signals to a thread, for the calls that name it.
func threadFilter(thread int) []bpf.Instruction {
	var f filter
	for call, argument := range map[uint32]uint32{
		unix.SYS_KILL:              0,
		unix.SYS_TKILL:             0,
		unix.SYS_TGKILL:            1,
		unix.SYS_RT_SIGQUEUEINFO:   0,
		unix.SYS_RT_TGSIGQUEUEINFO: 1,
	} {
		f.add(argumentCheck{call, argument, math.MaxUint32, bpf.JumpEqual, uint32(thread)})
	}

	return append(f, bpf.RetConstant{Val: permitted})
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
