package sandbox

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// TestCalls compares the table with a list of its own, so that a removed entry is noticed: the test of the filter
// reads the table.
func TestCalls(t *testing.T) {
	want := strings.Fields(`
		setsid setpgid
		ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise
		io_uring_setup io_uring_enter io_uring_register
		memfd_create memfd_secret
		shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
		mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
		setxattr lsetxattr fsetxattr setxattrat
		bpf perf_event_open userfaultfd keyctl add_key request_key
		init_module finit_module delete_module kexec_load kexec_file_load fanotify_init
		mount umount2 pivot_root chroot unshare setns open_tree move_mount
		fsopen fsmount fspick mount_setattr personality
		open_by_handle_at name_to_handle_at quotactl quotactl_fd
		io_setup sync syncfs sync_file_range msync flock`)
	slices.Sort(want)
	if got := slices.Sorted(maps.Values(Calls())); !slices.Equal(got, want) {
		t.Errorf("refused calls: got\n%v, want\n%v", got, want)
	}

	want = []string{"clone3", "fdatasync", "fsync", "map_shadow_stack", "mremap", "pidfd_send_signal"}
	if got := slices.Sorted(maps.Values(Absent())); !slices.Equal(got, want) {
		t.Errorf("absent calls: got %v, want %v", got, want)
	}

}

// runFilter returns the result of a filter for a call, as x/net's machine executes it. That machine reads words with
// their high byte first, the kernel reads them in the machine's order.
func runFilter(t *testing.T, vm *bpf.VM, arch, number uint32, args [6]uint64) uint32 {
	t.Helper()

	// struct seccomp_data: number, architecture, instruction pointer, arguments; of 64 bits the low half first.
	words := []uint32{number, arch, 0, 0}
	for _, a := range args {
		words = append(words, uint32(a), uint32(a>>32))
	}

	var data []byte
	for _, w := range words {
		data = binary.BigEndian.AppendUint32(data, w)
	}

	result, err := vm.Run(data)
	if err != nil {
		t.Fatalf("filter for call %d: got %v, want no error", number, err)
	}

	return uint32(result)
}

// TestFilter compares the filter with isRefused for every number of a system call, with deciding and other arguments.
func TestFilter(t *testing.T) {
	if nativeArch() == 0 {
		t.Skip("no filter exists for this architecture")
	}

	vm, err := bpf.NewVM(processFilter())
	if err != nil {
		t.Fatalf("assembling the filter: got %v, want no error", err)
	}

	interesting := []uint64{
		0, 1, 2, 3, 10, 16, 1 << 40, contract.MinAddress - 1, contract.MinAddress,
		unix.MAP_ANONYMOUS, unix.MAP_SHARED | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS,
		unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN,
		unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB,
		unix.FADV_DONTNEED, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_SETLK, unix.F_SETPIPE_SZ, unix.F_SETOWN_EX,
		unix.F_SETOWN, 0x8901, 0x8902,
		unix.SOL_SOCKET, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE,
		unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK,
		unix.CLONE_NEWUSER, unix.CLONE_NEWNET | unix.CLONE_VM, unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FS,
	}
	random := rand.New(rand.NewPCG(1, 2))
	count := 0
	for number := range uint32(600) {
		for range 200 {
			var args [6]uint64
			for i := range args {
				args[i] = interesting[random.IntN(len(interesting))]
			}

			want := uint32(permitted)
			if isRefused(number, args) {
				want = refused
				count++
			}
			if _, isAbsent := Absent()[number]; isAbsent {
				want = absent
			}
			if got := runFilter(t, vm, nativeArch(), number, args); got != want {
				t.Fatalf("call %d %x: got %#x, want %#x", number, args, got, want)
			}
		}
	}
	t.Logf("%d refused calls", count)

	if got := runFilter(t, vm, nativeArch()+1, unix.SYS_GETPID, [6]uint64{}); got != refused {
		t.Errorf("call of another architecture: got %#x, want %#x", got, refused)
	}
	if nativeArch() != unix.AUDIT_ARCH_X86_64 {
		return
	}
	if got := runFilter(t, vm, nativeArch(), x32|unix.SYS_GETPID, [6]uint64{}); got != refused {
		t.Errorf("call of amd64's second table: got %#x, want %#x", got, refused)
	}
}

// isRefused reports whether a system call of the native architecture is refused to every detector. It does not cover
// connect(2), which depends on the site's grants. Only the low half of an argument is compared: all compared arguments
// have 32 bits in the kernel.
func isRefused(number uint32, args [6]uint64) bool {
	if Calls()[number] != "" {
		return true
	}

	switch number {
	case unix.SYS_BIND:
		return uint32(args[2]) < contract.MinAddress
	case unix.SYS_CLONE:
		return args[0]&namespaces != 0
	case unix.SYS_MMAP:
		return args[3]&(stackMemory|hugePages) != 0 || args[3]&sharedMemory == sharedMemory
	case unix.SYS_FADVISE64:
		return uint32(args[3]) == unix.FADV_DONTNEED
	case unix.SYS_PRLIMIT64:
		return uint32(args[0]) != 0
	case unix.SYS_IOCTL:
		return slices.Contains(ownerCommands(), uint32(args[1]))
	case unix.SYS_FCNTL:
		return slices.Contains(sharedCommands(), uint32(args[1]))
	case unix.SYS_SETSOCKOPT:
		return slices.Contains(bufferOptions(), uint32(args[2]))
	case unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
		return uint32(args[0]) != unix.AF_UNIX || args[1]&socketKind != unix.SOCK_STREAM
	}

	return false
}
