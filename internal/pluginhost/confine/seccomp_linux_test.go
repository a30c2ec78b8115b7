package confine

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/refused"
)

// run is what the kernel does with a filter: the forms of it that are used here.
func run(t *testing.T, code []unix.SockFilter, arch, number uint32, args [6]uint64) uint32 {
	t.Helper()
	data := []uint32{number, arch, 0, 0} // struct seccomp_data: number, architecture, instruction pointer, arguments, low half first
	for _, a := range args {
		data = append(data, uint32(a), uint32(a>>32))
	}
	var a uint32
	for pc := 0; pc < len(code); pc++ {
		jump := func(ok bool) {
			if ok {
				pc += int(code[pc].Jt)
			} else {
				pc += int(code[pc].Jf)
			}
		}
		switch f := code[pc]; f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[f.K/4]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == f.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= f.K)
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d has the code %#x", pc, f.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// TestRefused holds the filter against the table that the conformance kit watches: for every number of a system call, with arguments
// that decide and with such that do not.
func TestRefused(t *testing.T) {
	if nativeArch() == 0 {
		t.Skip("no filter was written for this architecture")
	}
	random := rand.New(rand.NewPCG(1, 2))
	interesting := []uint64{0, 1, 2, 3, 10, 16, unix.MAP_ANONYMOUS, unix.MAP_SHARED | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS,
		unix.CLONE_NEWUSER, unix.CLONE_NEWNET | unix.CLONE_VM, unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FS, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 1 << 40}
	code := processFilter()
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
				if number == refused.Clone3 {
					want = unknown
				}
			}
			tried++
			if got := run(t, code, nativeArch(), number, args); got != want {
				t.Fatalf("call %d %x: the filter says %#x, and the table %#x", number, args, got, want)
			}
		}
	}
	t.Logf("%d calls tried, %d refused", tried, denied)
	if got := run(t, code, nativeArch()+1, unix.SYS_GETPID, [6]uint64{}); got != refuse {
		t.Errorf("a call of another architecture: %#x", got)
	}
	if got := run(t, code, nativeArch(), x32|unix.SYS_GETPID, [6]uint64{}); nativeArch() == unix.AUDIT_ARCH_X86_64 && got != refuse {
		t.Errorf("a call of amd64's second table: %#x", got)
	}
}
