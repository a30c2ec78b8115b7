package conformance

import (
	"math/rand/v2"
	"runtime"
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
		switch f := code[pc]; f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[f.K/4]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if a == f.K {
				pc += int(f.Jt)
			} else {
				pc += int(f.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d has the code %#x", pc, f.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// TestRefused holds what the watch asks about and how it judges against the table that a node's sandbox is made of: whatever that
// refuses is seen here, refused and told.
func TestRefused(t *testing.T) {
	const arch = 0xC000003E
	random := rand.New(rand.NewPCG(1, 2))
	interesting := []uint64{0, 1, 2, 3, 10, 16, unix.MAP_ANONYMOUS, unix.MAP_SHARED | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS,
		unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN, unix.SOL_SOCKET, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE,
		unix.CLONE_NEWUSER, unix.CLONE_NEWNET | unix.CLONE_VM, unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FS, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 1 << 40}
	code := filter(arch)
	seen := 0
	for number := range uint32(600) {
		for range 200 {
			var args [6]uint64
			for i := range args {
				args[i] = interesting[random.IntN(len(interesting))]
			}
			_, no := refused.Call(number, args)
			asked := run(t, code, arch, number, args) == unix.SECCOMP_RET_USER_NOTIF
			if _, watched := calls()[int(number)]; asked != (watched || no) {
				t.Fatalf("call %d %x: asked about: %t, refused on a node: %t", number, args, asked, no)
			}
			if !no {
				continue
			}
			seen++
			w := watcher{names: calls()}
			if errno := w.judge(notif{NR: int32(number), Args: args}); errno == 0 {
				t.Fatalf("call %d %x: the watch lets it through, and a node refuses it", number, args)
			}
			_, absent := refused.Absent()[number] // those libraries try, and do without
			if len(w.tried[called])+len(w.tried[network]) == 0 && !absent {
				t.Fatalf("call %d %x: it is not told", number, args)
			}
		}
	}
	t.Logf("on %s %d calls that a node refuses", runtime.GOARCH, seen)
}
