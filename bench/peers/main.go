// Command peers measures prelet, the floor and other programs that prepare a node, in turns on one machine and against
// one real cluster, and how prelet's cost grows with the machine, the site and the fleet. It writes one JSON document
// with all samples; tools/peers makes tables and plots of it.
//
// It needs root and the programs that `make bench-peers` builds. It works in network and mount namespaces of its own,
// because it gives the loopback interface the address of a cloud's metadata service, and binds folders of this machine
// into nodes. It writes below -dir and to -o only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/bench/measure"
)

// options are the flags.
type options struct {
	n       int    // rounds that count
	prelet  string // the program to measure
	helpers string // folder of floor, fleet and kube-serve
	peers   string // what tools/peers/build.sh made
	kube    string // what test/kube/build.sh made
	nodeadm string // another nodeadm than that of -peers
	storm   string // result of test/kube's storms; "": none
	dir     string // where machines are made
	out     string
	inside  string // folder for the nodes, in the namespaces; "": not there yet
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := options{helpers: filepath.Dir(self)}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.IntVar(&o.n, "n", 15, "`ROUNDS` that count; one more runs before them")
	flags.StringVar(&o.prelet, "prelet", "bin/prelet", "the `PROGRAM` to measure")
	flags.StringVar(&o.peers, "peers", "tools/peers/.cache", "`FOLDER` that tools/peers/build.sh filled")
	flags.StringVar(&o.kube, "kube", "test/kube/.cache", "`FOLDER` that test/kube/build.sh filled")
	flags.StringVar(&o.nodeadm, "nodeadm", "", "another nodeadm, a `PROGRAM`")
	flags.StringVar(&o.storm, "storm", "", "`FILE` with the result of storms")
	flags.StringVar(&o.dir, "dir", "bin", "`FOLDER` on the file system to write to; on a tmpfs fsync is free")
	flags.StringVar(&o.out, "o", "bin/peers.json", "`FILE` for the result")
	flags.StringVar(&o.inside, "inside", "", "for this program's second process")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.inside == "" {
		return enter(ctx, o.dir, self, args)
	}
	if err := prepareNetwork(ctx); err != nil {
		return err
	}

	r, err := measureAll(ctx, o)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}

	return os.WriteFile(o.out, append(text, '\n'), 0o644)
}

// enter runs this program again, in namespaces of its own. What it leaves is removed out here, where none of its mounts
// is visible: a removal in there would also empty the folders of this machine that are bound into nodes.
func enter(ctx context.Context, dir, self string, args []string) (err error) {
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	base, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	lock, err := os.Open(base)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		return fmt.Errorf("lock %s: %w", base, err)
	}

	//nolint:gosec // this program, with the flags that its caller gave it
	cmd := exec.CommandContext(ctx, self, append([]string{"-inside", base}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	runtime.LockOSThread() // the kernel sends the signal below when this thread ends
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:    syscall.SIGINT,
	}

	return cmd.Run()
}

// prefix is that of the folders of this program, hidden from `go vet ./...`.
const prefix = ".peers-"

// removeLeftovers removes the folders of runs that were killed. A run that has not ended holds the lock of its folder.
func removeLeftovers(dir string) error {
	folders, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	for _, name := range folders {
		err = errors.Join(err, removeUnlocked(name))
	}

	return err
}

func removeUnlocked(folder string) error {
	lock, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer lock.Close()
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", folder, err)
	}

	return os.RemoveAll(folder)
}

// metadataAddress is where EC2 has its metadata service.
const metadataAddress = "169.254.169.254"

// prepareNetwork turns loopback on, with the address of the metadata service, and with another as default route, which
// kubeadm looks for. It refuses a namespace that has other interfaces: that would be the network of this machine.
func prepareNetwork(ctx context.Context) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 || len(interfaces) != 1 {
		return errors.New("not in a network namespace of its own: run `make bench-peers` as root")
	}
	script := "ip link set lo up && ip address replace " + metadataAddress + "/32 dev lo && " +
		"ip address replace 192.0.2.10/24 dev lo && ip route replace default dev lo"
	if out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}

	return nil
}

// result is the document. Names of machines and paths are not in it.
type result struct {
	Date          string   `json:"date"`
	Machine       string   `json:"machine"`        // and its load while peers were measured
	GrowthMachine string   `json:"growth_machine"` // the same for growth
	CPU           string   `json:"cpu"`
	Kernel        string   `json:"kernel"`
	Rounds        int      `json:"rounds"`
	OwnRSS        float64  `json:"own_rss_mib"` // smaller programs cannot be measured
	Peers         []row    `json:"peers"`
	Growth        []growth `json:"growth"`
}

func measureAll(ctx context.Context, o options) (result, error) {
	r := result{Date: time.Now().UTC().Format(time.DateOnly), Rounds: o.n, CPU: cpuModel(), Kernel: kernelRelease()}

	b, err := newBench(ctx, o)
	if err != nil {
		return r, err
	}
	defer b.stop()

	r.Machine, err = withLoad(func() (err error) {
		r.Peers, err = b.measurePeers(ctx)
		return err
	})
	if err != nil {
		return r, err
	}
	r.OwnRSS = measure.OwnRSS() // before growth needs more

	r.GrowthMachine, err = withLoad(func() (err error) {
		r.Growth, err = b.measureGrowth(ctx)
		return err
	})

	return r, err
}

// withLoad measures, and returns and prints what other programs did meanwhile. The cluster is one of them: its time
// counts for this process only after it ended.
func withLoad(run func() error) (string, error) {
	before, err := measure.ReadLoad()
	if err != nil {
		return "", err
	}
	if err := run(); err != nil {
		return "", err
	}
	after, err := measure.ReadLoad()
	if err != nil {
		return "", err
	}
	text := after.DescribeSince(before)
	fmt.Println(text)

	return text, nil
}

// cpuModel returns the name of this machine's processor, before another machine is laid over it.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}

	return ""
}

// kernelRelease returns the version of the kernel, without what its builder added.
func kernelRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	release, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-")

	return release
}
