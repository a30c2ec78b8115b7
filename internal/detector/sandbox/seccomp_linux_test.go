package confine

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/refused"
)

// run returns the action of a filter for a call, as x/net's machine executes it. That machine reads words with their high
// byte first, the kernel reads them in the machine's order.
func run(t *testing.T, vm *bpf.VM, arch, number uint32, args [6]uint64) uint32 {
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

	action, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}

	return uint32(action)
}

// TestRefused holds the filter against the table that the conformance kit watches: for every number of a system call, with arguments
// that decide and with such that do not.
func TestRefused(t *testing.T) {
	if nativeArch() == 0 {
		t.Skip("no filter was written for this architecture")
	}
	random := rand.New(rand.NewPCG(1, 2))
	interesting := []uint64{0, 1, 2, 3, 10, 16, unix.MAP_ANONYMOUS, unix.MAP_SHARED | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS,
		unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN, unix.SOL_SOCKET, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE,
		unix.CLONE_NEWUSER, unix.CLONE_NEWNET | unix.CLONE_VM, unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FS, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 1 << 40}
	vm, err := bpf.NewVM(processFilter())
	if err != nil {
		t.Fatal(err)
	}
	tried, denied := 0, 0
	for number := range uint32(600) {
		for range 200 {
			var args [6]uint64
			for i := range args {
				args[i] = interesting[random.IntN(len(interesting))]
			}
			want := uint32(permit)
			if _, no := refused.Call(number, args); no {
				want, denied = refuse, denied+1
				if _, absent := refused.Absent()[number]; absent {
					want = unknown
				}
			}
			tried++
			if got := run(t, vm, nativeArch(), number, args); got != want {
				t.Fatalf("call %d %x: the filter says %#x, and the table %#x", number, args, got, want)
			}
		}
	}
	t.Logf("%d calls tried, %d refused", tried, denied)
	if got := run(t, vm, nativeArch()+1, unix.SYS_GETPID, [6]uint64{}); got != refuse {
		t.Errorf("a call of another architecture: %#x", got)
	}
	if got := run(t, vm, nativeArch(), x32|unix.SYS_GETPID, [6]uint64{}); nativeArch() == unix.AUDIT_ARCH_X86_64 && got != refuse {
		t.Errorf("a call of amd64's second table: %#x", got)
	}
}
