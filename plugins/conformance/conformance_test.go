//go:build linux

package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/conformance"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

// TestMain becomes a detector if the argument names one: the test's own program is the checked program.
func TestMain(m *testing.M) {
	conformance.Shim()
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "detector=") {
		becomeDetector(strings.TrimPrefix(os.Args[1], "detector="))
		return
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// programs is the folder of the programs that these tests build. TestMain makes and removes it.
var programs string

// program returns the path of the checked program: this test, or with the race detector the same test built without
// it, because the race detector needs more memory than a detector gets.
var program = sync.OnceValues(func() (string, error) {
	if !raceDetector {
		return os.Executable()
	}
	built := filepath.Join(programs, "detector")
	c := exec.Command("go", "test", "-c", "-o", built, ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return built, os.Chmod(programs, 0o755) // the detector runs as another user
})

// becomeDetector becomes a detector that does one thing wrong.
func becomeDetector(mode string) {
	byHand := os.Getenv(protocol.CookieKey) == ""
	switch {
	case mode == "early":
		fmt.Fprintln(os.Stderr, "vendor library not found: libfoo.so.1\x1b]0;owned\a\u202e")
		os.Exit(3)
	case mode == "chatty start":
		fmt.Println("Welcome to the detector!")
	case mode == "memfd at start" && !byHand:
		if _, err := unix.MemfdCreate("x", 0); err != nil {
			fmt.Fprintln(os.Stderr, "no memory to share:", err)
			os.Exit(2)
		}
	case mode == "acts at start" && !byHand:
		_ = os.WriteFile("/tmp/detector-conformance-must-not-exist", nil, 0o600)
		if c, err := net.DialTimeout("tcp", "127.0.0.1:1", time.Second); err == nil {
			c.Close()
		}
		_ = exec.Command("/bin/true").Run()
		os.Exit(2)
	case mode == "reads at start" && !byHand:
		_, _ = os.ReadFile("/etc/hostname")
	case mode == "folder" && !byHand:
		_ = os.Mkdir(filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "d"), 0o700)
	case mode == "foreign address" && !byHand:
		fmt.Println("1|1|unix|/run/dbus/system_bus_socket|grpc")
		hang()
	case mode == "tcp" && !byHand:
		fmt.Println("1|1|tcp|127.0.0.1:6443|grpc")
		hang()
	case mode == "waits by hand" && byHand:
		hang()
	case byHand:
		return
	case mode == "unstable" || mode == "empty label": // which the SDK does not let happen
		serveRaw(mode)
		return
	}
	sdk.Serve(detector(mode))
}

// raw is a detector without the SDK.
type raw struct {
	detectorv1.UnimplementedDetectorServiceServer
	mode string
}

// serveRaw serves without the SDK.
func serveRaw(mode string) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Plugins(protocol.Plugin{Service: raw{mode: mode}}),
		GRPCServer:       plugin.DefaultGRPCServer,
		Logger:           hclog.NewNullLogger(),
	})
}

// Describe implements detector.v1.
func (r raw) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	doc := ""
	if r.mode == "unstable" {
		doc = fmt.Sprint(time.Now().UnixNano())
	}
	return &detectorv1.DescribeResponse{
		Name:         "raw",
		Version:      "1",
		Doc:          doc,
		LabelDomains: []string{"toy.example"},
		Match:        &detectorv1.Match{Always: true},
	}, nil
}

// Detect implements detector.v1.
func (raw) Detect(context.Context, *detectorv1.DetectRequest) (*detectorv1.DetectResponse, error) {
	return &detectorv1.DetectResponse{Labels: []*detectorv1.Label{{Key: "toy.example/model"}}}, nil
}

// hang blocks until the kit kills the program.
func hang() { time.Sleep(time.Hour) }

var (
	ports = sdk.Attr[int]{Name: "ports", Doc: "How many.", Default: new(1)}
	seen  = sdk.Fact[string]{Name: "seen", Doc: "What was seen."}

	verified = sdk.Fact[bool]{Name: "verified", Doc: "Whether the card has verified its firmware."}
	failures = sdk.Fact[int]{Name: "failures", Doc: "How often it failed."}
)

// detector declares a detector of the SDK that does one thing wrong.
func detector(mode string) sdk.Detector {
	out := sdk.Detector{
		Name:    "toy",
		Version: "1.0.0",
		Config:  []sdk.Declaration{ports},
		Facts:   []sdk.Declaration{seen, verified, failures},
		Domains: []string{"toy.example"},
		Match:   sdk.Match{PCIIDs: []string{"1234:*:12"}},
		Detect:  func(m *sdk.Machine) error { return detect(m, mode) },
	}
	switch mode {
	case "unstable between processes":
		out.Doc = fmt.Sprint(os.Getpid())
	case "declared":
		out.Needs.Read = []string{"/etc/hostname", "/etc/host*"}
		out.Wants.Execute = []string{"/bin/true", "/usr/bin/true"}
	case "wants as needs":
		out.Wants.Read = []string{"/etc/hostname"}
	case "reads at start":
		out.Needs.Read = []string{"/etc/host*"}
	case "paths":
		out.Match = sdk.Match{Paths: []string{"/sys/devices/*/*/nothing"}}
	case "another's device":
		out.Match = sdk.Match{Always: true}
	}
	return out
}

func detect(m *sdk.Machine, mode string) error {
	for _, d := range m.Devices {
		d.ReadAttribute("class", "class")
		m.Add(d)
	}
	switch mode {
	case "values", "no false", "no zero", "never false":
		reportVerified(m, mode)
	case "another's device":
		m.Add(&sdk.Device{Address: "0000:1b:00.0"})
	case "random":
		m.AddFacts(seen.Is(fmt.Sprint(rand.Int()), ""))
	case "random between processes":
		m.AddFacts(seen.Is(fmt.Sprint(os.Getpid()), ""))
	case "writer":
		_ = os.WriteFile("/tmp/detector-conformance-must-not-exist", nil, 0o600) // it fails, and goes on
		_ = os.Mkdir("/tmp/detector-conformance-must-not-exist", 0o700)
	case "network":
		if c, err := net.DialTimeout("tcp", "127.0.0.1:1", time.Second); err == nil {
			c.Close()
		}
	case "netlink":
		_, _ = net.Interfaces()
	case "datagrams":
		if pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0); err == nil {
			_, _ = syscall.Close(pair[0]), syscall.Close(pair[1])
		}
	case "refused":
		refusedCalls()
	case "device":
		if f, err := os.Open("/dev/zero"); err == nil {
			_ = f.Close()
		}
	case "undeclared", "declared":
		_, err := os.ReadFile("/etc/hostname")
		run := exec.Command("/bin/true").Run()
		if mode == "declared" {
			return errors.Join(err)
		}
		m.Warn("%v, %v", err, run)
	case "wants as needs":
		_, err := os.ReadFile("/etc/hostname")
		return err
	case "odd":
		for _, x := range m.Devices {
			if c, _ := m.Text(x.Path("class")); !strings.HasPrefix(c, "0x") {
				os.Exit(1)
			}
		}
	case "without devices":
		if len(m.Devices) == 0 {
			return errors.New("no device")
		}
	case "orphan":
		c := exec.Command("/proc/self/exe", "detector=sleeps")
		c.Stderr = os.Stderr
		return c.Start()
	case "too much":
		m.Warn("%s", "")
		for i := range 2000 {
			m.Add(&sdk.Device{Attributes: map[string]string{"n": fmt.Sprint(i)}})
		}
	}
	return nil
}

// reportVerified reports what the machine's two files contain. Without false a detector takes false for unknown, and
// without zero 0.
func reportVerified(m *sdk.Machine, mode string) {
	const folder = "/sys/class/toy/"
	file := folder + "verified"
	evidence := file
	if mode == "never false" {
		evidence = "the card"
	}
	text, err := m.Text(file)
	if err != nil || mode != "values" && mode != "no zero" && text == "0" {
		m.AddFacts(verified.Unknown("the card does not report it"))
	} else {
		m.AddFacts(verified.Is(text == "1", evidence))
	}
	n, err := m.Int(folder + "failures")
	if err != nil || mode == "no zero" && n == 0 {
		m.AddFacts(failures.Unknown("the card does not report it"))
	} else {
		m.AddFacts(failures.Is(int(n), folder+"failures"))
	}
}

// TestZeros checks detectors that take false or 0 for unknown on a machine where neither is.
func TestZeros(t *testing.T) {
	const text = "pci 0000:17:00.0 1234:0001 1234:0001 120000 toy\n" +
		"/sys/class/toy/verified = 1\n/sys/class/toy/failures = 3\n"
	machine := detectortest.Root(t, text).Dir()
	unverified := detectortest.Root(t, strings.ReplaceAll(text, "verified = 1", "verified = 0")).Dir()
	for mode, want := range map[string]conformance.Finding{
		"values":      {State: conformance.Passed},
		"no false":    {State: conformance.Failed, Found: `fact verified is true with "1" in /sys/class/toy/verified`},
		"no zero":     {State: conformance.Failed, Found: `fact failures is 3 with "3" in /sys/class/toy/failures`},
		"never false": {State: conformance.Note, Found: "fact verified is true, or unknown"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			roots := []string{machine}
			if mode == "never false" {
				roots = append(roots, unverified)
			}
			for _, c := range check(t, mode, roots...).Checks {
				if c.ID == "zeros" && (c.State != want.State || !strings.Contains(c.Found, want.Found)) {
					t.Errorf("detector %q: got %+v, want %s with %q", mode, c, want.State, want.Found)
				}
			}
		})
	}
}

// refusedCalls makes system calls that no site can grant, and continues.
func refusedCalls() {
	_, _ = unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANON)
	_, _ = unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_GROWSDOWN)
	_ = unix.Setxattr("/tmp", "user.x", nil, 0)
	if s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
		_ = unix.Close(s)
	}
	for _, call := range [][4]uintptr{{unix.SYS_MSGGET, 0, 0}, {unix.SYS_SEMGET, 0, 1, 0}, {unix.SYS_SHMGET, 0, 4096, 0}, {unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&[]byte("x\x00")[0])), 0, 0}} {
		_, _, _ = unix.RawSyscall(call[0], call[1], call[2], call[3])
	}
	if pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0); errno == 0 &&
		pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0) // the child that there must not be
	}
}

// check runs the kit on a detector, on machines if there are any.
func check(t *testing.T, mode string, roots ...string) conformance.Findings {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	detector, err := program()
	if err != nil {
		t.Fatalf("building the detector: got %v, want no error", err)
	}
	o := conformance.RunOptions{Args: []string{"detector=" + mode}, Roots: roots, Timeout: time.Minute, Patience: 60}
	if mode == "waits by hand" { // its fault is that it takes longer
		o.Patience = 1
	}
	if raceDetector {
		o.Memory = 1 << 30 // the program of that build is larger, too
	}
	r, err := conformance.Run(ctx, detector, o)
	if err != nil {
		t.Fatalf("Run(%s): got %v, want no error", mode, err)
	}
	return r
}

func TestGood(t *testing.T) {
	for _, mode := range []string{"good", "declared", "reads at start"} {
		r := check(t, mode)
		for _, c := range r.Checks {
			watched := slices.Contains([]string{"no-writes", "no-network", "declared"}, c.ID)
			if c.State != conformance.Passed && !(c.State == conformance.Skipped && watched) {
				t.Errorf("detector %q: got %+v, want it to pass", mode, c)
			}
		}
	}
}

func TestBad(t *testing.T) {
	type row struct {
		mode, id string
		state    conformance.Outcome
		found    string
	}
	tests := map[string][]row{} // by mode: a detector runs once for all of its rows
	for line := range strings.Lines(strings.TrimSpace(`
		early                      | handshake          | failed | libfoo.so.1
		chatty start               | handshake          | failed | Welcome
		foreign address            | handshake          | failed | /run/dbus
		tcp                        | handshake          | failed | tcp
		waits by hand              | by-hand            | failed | does not end
		unstable                   | stable-description | failed | second call
		unstable between processes | stable-description | failed | another process
		random                     | deterministic      | failed | second call
		random between processes   | deterministic      | failed | another process
		writer                     | no-writes          | failed | /tmp/detector-conformance-must-not-exist
		network                    | no-network         | note   | "socket(AF_INET, "
		netlink                    | no-network         | note   | "socket(AF_NETLINK, "
		datagrams                  | no-network         | note   | "socketpair(AF_UNIX, SOCK_DGRAM, "
		undeclared                 | declared           | failed | /bin/true
		device                     | declared           | note   | reads /dev/zero
		refused                    | declared           | failed | calls mmap(NULL, 4096, PROT_READ, MAP_SHARED|MAP_ANONYMOUS, -1, 0), which is refused to all detectors
		refused                    | declared           | failed | calls clone(child_stack=NULL, flags=CLONE_NEWUSER|SIGCHLD), which
		refused                    | declared           | failed | calls msgget(IPC_PRIVATE, 000), which
		refused                    | declared           | failed | calls mq_open("x", O_RDONLY), which
		refused                    | declared           | failed | calls semget(IPC_PRIVATE, 1, 000), which
		refused                    | declared           | failed | calls shmget(IPC_PRIVATE, 4096, 000), which
		memfd at start             | declared           | failed | calls memfd_create("x", 0), which
		acts at start              | no-writes          | failed | /tmp/detector-conformance-must-not-exist
		acts at start              | no-network         | note   | "socket(AF_INET, "
		acts at start              | declared           | failed | runs /bin/true
		folder                     | no-writes          | failed | "mkdir "
		refused                    | declared           | failed | calls mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|MAP_GROWSDOWN, -1, 0), which
		refused                    | declared           | failed | SOL_SOCKET, SO_SNDBUF, [1048576], 4), which
		refused                    | declared           | failed | "calls setxattr(\"/tmp\", \"user.x\", "
		paths                      | handshake          | failed | match.paths[0]
		another's device           | detect             | failed | any_pci_device
		empty label                | detect             | note   | label toy.example/model has no value
		wants as needs             | wants              | failed | /etc/hostname
		odd                        | odd                | failed | ended
		without devices            | detect             | failed | no device
		orphan                     | shutdown           | failed | still there
		too much                   | detect             | failed | too many
	`)) {
		cells := strings.SplitN(line, " | ", 4)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := row{cells[0], cells[1], conformance.Outcome(cells[2]), cells[3]}
		if text, err := strconv.Unquote(r.found); err == nil { // with a space at its end
			r.found = text
		}
		tests[r.mode] = append(tests[r.mode], r)
	}
	for mode, wants := range tests {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := check(t, mode)
			var out bytes.Buffer
			r.Print(&out)
			if strings.ContainsAny(out.String(), "\x1b\a\u202e") {
				t.Errorf("got control characters, want none: %q", out.String())
			}
			for _, want := range wants {
				i := slices.IndexFunc(r.Checks, func(c conformance.Finding) bool { return c.ID == want.id })
				if i < 0 {
					t.Fatalf("got no check %s, want one:\n%s", want.id, out.String())
				}
				c := r.Checks[i]
				if c.State == conformance.Skipped && strings.Contains(c.Found, "cannot be watched") {
					t.Skip(c.Found)
				}
				if c.State != want.state || !strings.Contains(c.Found, want.found) || c.Fix == "" {
					t.Errorf("want %s with %q and how to fix it, got:\n%s", want.state, want.found, out.String())
				}
			}
		})
	}
	if _, err := os.Stat("/tmp/detector-conformance-must-not-exist"); err == nil {
		t.Errorf("the file of a refused write exists, want none")
	}
}

// TestNothingIsReported checks that access is not reported as correct if the detector was never asked.
func TestNothingIsReported(t *testing.T) {
	for _, c := range check(t, "early").Checks {
		if slices.Contains([]string{"no-writes", "no-network", "declared"}, c.ID) && c.State != conformance.Skipped {
			t.Errorf("%s of a detector that ends at start: got %s, want %s", c.ID, c.State, conformance.Skipped)
		}
	}
}

// TestRelativeRoot checks a machine with a relative path.
func TestRelativeRoot(t *testing.T) {
	tree := t.TempDir()
	if err := errors.Join(
		os.Chmod(tree, 0o755),
		os.MkdirAll(filepath.Join(tree, "sys/bus/pci/devices"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for dir := tree; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Dir(tree))
	r := check(t, "good", filepath.Base(tree))
	for _, c := range r.Checks {
		if c.State == conformance.Failed || c.ID == "detect" && c.State != conformance.Passed {
			t.Errorf("got %+v; want all checks passed", c)
		}
	}
}

// TestMachine writes a machine file as a folder.
func TestMachine(t *testing.T) {
	dir := t.TempDir()
	file, tree := filepath.Join(dir, "one.machine"), filepath.Join(dir, "tree")
	text := "# One card.\nconfig {\"a\": 1}\npci 0000:17:00.0 1234:0001 1234:0001 120000 one " +
		"numa=1\n@0000:17:00.0/firmware = 1.19\n---- answer\n{}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := conformance.Command([]string{"machine", file, tree}, &stdout, &stderr); status != 0 {
		t.Fatalf("got %d: %s; want 0", status, stderr.String())
	}
	b, err := os.ReadFile(filepath.Join(tree, "sys/bus/pci/devices/0000:17:00.0/firmware"))
	if string(b) != "1.19\n" {
		t.Errorf("got %q, %v; want 1.19 as in the machine file", b, err)
	}
	b, err = os.ReadFile(filepath.Join(tree, "sys/devices/system/cpu/online"))
	if string(b) != "0-3\n" {
		t.Errorf("CPUs: got %q, %v; want 0-3, without which no plan can be made", b, err)
	}
	if status := conformance.Command([]string{"machine", file, tree}, &stdout, &stderr); status != 1 ||
		!strings.Contains(stderr.String(), "is not empty") {
		t.Errorf("into a folder that is not empty: got %d: %s; want 1", status, stderr.String())
	}
}
