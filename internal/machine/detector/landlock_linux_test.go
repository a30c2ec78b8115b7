package detector

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/sandbox"
)

// TestLandlockVersions runs the sandbox with each version of Landlock up to the kernel's: features of a version are
// refused from that version on and, as control, not before. A version that cannot confine signals is reported.
func TestLandlockVersions(t *testing.T) {
	newest, err := sandbox.LandlockABI()
	if err != nil {
		t.Skip("needs a kernel with Landlock: ", err)
	}
	if os.Geteuid() != 0 && newest < sandbox.ABIScopes {
		t.Skip("needs root, or a kernel whose Landlock restricts signals; TestSandbox checks that")
	}
	b := newBench(t, "tries")
	config := b.field()
	config["truncate_file"] = b.write("open/long", []byte("text"), 0o666)
	config["device_null"] = "/dev/null"
	config["paths_only"] = "yes"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	config["tcp_listener"] = l.Addr().String()
	ran := 0
	for abi := 1; abi <= min(newest, sandbox.ABISockets-1); abi++ {
		t.Run(fmt.Sprint(abi), func(t *testing.T) {
			ran++
			b := *b
			b.t = t
			b.write("open/long", []byte("text"), 0o666)
			b = *b.without(fmt.Sprint("seccomp-landlock-", abi)) // else seccomp refuses the same
			config["signal_neighbour"] = strconv.Itoa(
				b.neighbour(),
			) // the last one was ended: without seccomp all that its user runs is
			said, ans, _ := b.ask(
				tape.DetectorReq{Name: "tries", Config: config, Allow: tape.Grants{Read: []string{"/open"}}},
				longest,
			)
			if ans.Fault != nil {
				t.Fatalf("got %s: %s, want an answer", ans.Name(), ans.Why())
			}
			got := said.Attributes
			for key, from := range table.YAML[map[string]int](t, `
read_passwd: 1
make_folder: 1
run_program: 1
device_zero: 1
fifo: 1
truncate_file: 3
tcp_listener: 4
connect_abstract: 6
signal_neighbour: 6
signal_host: 6
`) {
				if refused := got[key] != "ok"; refused != (abi >= from) || got[key] == "" {
					t.Errorf("%s with version %d: got %q, want a refusal from version %d on", key, abi, got[key], from)
				}
			}
			if refused := got["device_null_ioctl"] == syscall.EACCES.Error(); refused != (abi >= 5) {
				t.Errorf("ioctl: got %q, want a refusal where Landlock has one", got["device_null_ioctl"])
			}
			if got["read_file"] != "ok" || got["read_cpuinfo"] != "ok" || got["null"] != "ok" {
				t.Errorf("granted access: got %q, %q, %q, want ok", got["read_file"], got["read_cpuinfo"], got["null"])
			}
			if isReported := strings.Contains(
				strings.Join(said.Sandbox, "\n"),
				fmt.Sprintf("version %d; below %d", abi, sandbox.ABIScopes),
			); isReported != (abi < sandbox.ABIScopes) {
				t.Errorf("got missing parts %q, want the version of Landlock", said.Sandbox)
			}
		})
	}
	t.Logf("this kernel has version %d", newest)
}
