package boot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	cacheVariable = "PRELET_BOOT_CACHE" // the folder that image.sh has filled
	poweroff      = syscall.Signal(34 + 4)
	nodeName      = "n1"

	bootTime    = 60 * time.Second
	commandTime = 90 * time.Second
	offTime     = 60 * time.Second
)

// machine is one whose disk survives its reboots.
type machine struct {
	t       *testing.T
	name    string
	dir     string // of the machine: tmpfs, console.log
	root    string // its disk
	cluster *cluster
	network string // the name of its network namespace; "": its own
	site    string

	image string // of its disk, where that can lose its power; else the disk is memory
	loop  int    // the device that it is on

	env    []string // of systemd-nspawn
	limits []string // cgroups that it is in, in addition to those of systemd, for their limits

	container *exec.Cmd
	ended     chan struct{}
	leader    int // PID 1 of it, as we see it
}

const site = `
cluster {
  servers        = ["SERVER"]
  ca_cert_hashes = ["PIN"]
  token          = credential("bootstrap-token")
  retry          = "1s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "60s"
  }
}
`

var serial atomic.Int32 // of machines; names of cgroups and network namespaces are the host's

// newMachine is one that was never booted: packages installed and enabled, a site, a token, a cluster that answers.
// more are layers of the image that most machines have not.
func newMachine(t *testing.T, more ...string) *machine {
	t.Helper()
	return machineOn(t, func(m *machine, cache string) error { return m.layers(cache, more) })
}

// layers is a disk in memory over the image. What it holds is the same whether it was fsynced or not.
func (m *machine) layers(cache string, more []string) error {
	if err := errors.Join(
		os.MkdirAll(m.dir+"/disk", 0o755),
		syscall.Mount("tmpfs", m.dir+"/disk", "tmpfs", 0, "mode=755"),
	); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(m.dir+"/disk/upper", 0o755), os.Mkdir(m.dir+"/disk/work", 0o755)); err != nil {
		return err
	}
	lower := cache + "/layer:"
	for _, l := range more {
		lower += cache + "/" + l + ":"
	}
	layers := fmt.Sprintf(
		"lowerdir=%s%s/debian,upperdir=%s/disk/upper,workdir=%s/disk/work",
		lower,
		cache,
		m.dir,
		m.dir,
	)
	return syscall.Mount("overlay", m.root, "overlay", 0, layers)
}

// machineOn is newMachine on a disk that is made by disk.
func machineOn(t *testing.T, disk func(m *machine, cache string) error) *machine {
	t.Helper()
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		t.Skip("this boots machines: make e2e-boot")
	}
	name := fmt.Sprintf("prelet-%d-%d", os.Getpid(), serial.Add(1))
	m := &machine{t: t, name: name, dir: filepath.Join(cache, "run", name)}
	m.root = filepath.Join(m.dir, "root")
	t.Cleanup(m.remove)
	m.cluster = newCluster(t, name)
	if err := os.MkdirAll(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := disk(m, cache); err != nil {
		t.Fatal(err)
	}
	m.put("/etc/machine-id", fmt.Sprintf("%032x\n", time.Now().UnixNano()))
	m.put("/etc/hostname", nodeName+"\n")
	m.put("/var/log/journal/.keep", "") // a folder there is what keeps the journal over a kill
	m.site = strings.NewReplacer("SERVER", m.cluster.URL(), "PIN", m.cluster.CAHash()).Replace(site)
	m.put("/etc/prelet/site.hcl", m.site)
	m.put("/etc/credstore/bootstrap-token", m.cluster.Token()+"\n")
	conf, err := m.cluster.NodeKubeconfig(nodeName)
	if err != nil {
		t.Fatal(err)
	}
	m.put("/etc/standin/kubelet.conf", string(conf))
	if out, err := exec.Command("chroot", m.root, "systemd-sysusers").
		CombinedOutput(); err != nil { // as the package does
		t.Fatalf("systemd-sysusers: got %v: %s; want no error", err, out)
	}
	if out, err := exec.Command("chroot", m.root, "systemctl", "enable", "kubelet.service", "prelet.service", "prelet-verify.service").
		CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: got %v: %s; want no error", err, out)
	}
	m.cluster.back()
	return m
}

// remove ends the machine and all that it was made of.
func (m *machine) remove() {
	if m.t.Failed() && m.leader != 0 {
		m.t.Logf("%s\n%s", m.try("systemctl", "--no-pager", "--failed").out, m.journal())
	}
	m.kill()
	clearAway(m.dir)
}

// clearAway removes what a machine was made of, and ends what still runs in it.
func clearAway(dir string) {
	name := filepath.Base(dir)
	for _, hierarchy := range cgroups() {
		_ = filepath.WalkDir(filepath.Join(hierarchy, name), func(p string, d fs.DirEntry, err error) error {
			procs, _ := os.ReadFile(filepath.Join(p, "cgroup.procs"))
			for _, pid := range strings.Fields(string(procs)) {
				if n, err := strconv.Atoi(pid); err == nil {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			}
			return nil
		})
	}
	for _, at := range []string{dir + "/root", dir + "/disk"} {
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
	}
	if left, err := os.ReadDir(dir + "/root"); err == nil && len(left) == 0 { // never below a mount that stayed
		_ = os.RemoveAll(dir)
	}
	for _, hierarchy := range cgroups() {
		for range 40 { // what was killed is in it for a moment
			if exec.Command("find", hierarchy+"/"+name, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").
				Run() ==
				nil {
				break
			}
			if _, err := os.Stat(hierarchy + "/" + name); err != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	_ = exec.Command("ip", "netns", "del", name).Run()
}

// inNamespace is set in the process that runs the tests.
const inNamespace = "PRELET_BOOT_NAMESPACE"

// TestMain runs the tests in their own mount namespace: other mount namespaces that are made meanwhile do not keep our
// disks busy, and none is left mounted. First it checks that the folder contains the output of this tree, and removes
// the machines of tests that were killed, because they do not end by themselves.
func TestMain(tests *testing.M) {
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		os.Exit(tests.Run())
	}
	if os.Getenv(inNamespace) != "" {
		if err := shareMounts(filepath.Join(cache, "run")); err != nil {
			fmt.Fprintln(os.Stderr, "the folder of the machines:", err)
			os.Exit(1)
		}
		os.Exit(tests.Run())
	}
	if out, err := exec.Command("./image.sh", "--check", cache).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", cache, err, out)
		os.Exit(1)
	}
	left, _ := filepath.Glob(filepath.Join(cache, "run", "prelet-*"))
	for _, dir := range left {
		var pid, number int
		if _, err := fmt.Sscanf(filepath.Base(dir), "prelet-%d-%d", &pid, &number); err == nil &&
			syscall.Kill(pid, 0) == syscall.ESRCH {
			clearAway(dir)
		}
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), inNamespace+"=yes")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := c.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		os.Exit(max(1, ended.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "machines are booted by root only, in a mount namespace:", err)
		os.Exit(1)
	}
}

// shareMounts lets what is unmounted below a folder go in every machine's namespace too: each takes with it what was
// mounted for the others when it started, and would hold a disk, and the loop device below it, for as long as it
// runs.
func shareMounts(folder string) error {
	return errors.Join(
		os.MkdirAll(folder, 0o755),
		syscall.Mount(folder, folder, "", syscall.MS_BIND, ""),
		syscall.Mount("", folder, "", syscall.MS_SHARED, ""),
	)
}

// cgroups are the hierarchies that systemd needs: one where the machine has version 2 only, else its two.
func cgroups() (out []string) {
	for _, p := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"} {
		if _, err := os.Stat(p + "/cgroup.procs"); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// start begins a boot, and returns when PID 1 answers. extra are arguments of systemd-nspawn.
func (m *machine) start(extra ...string) {
	m.t.Helper()
	// A cgroup of its own, and a private mount of version 2 alone, whatever the host has.
	script := `name=$1; shift
for h in "$@"; do [ "$h" = -- ] && break; mkdir -p "$h/$name"; echo $$ >"$h/$name/cgroup.procs"; done
while [ "$1" != -- ]; do shift; done; shift
exec unshare -m --propagation slave sh -c 'umount -R /sys/fs/cgroup && mount -t cgroup2 -o rw,nosuid,nodev,noexec cgroup2 /sys/fs/cgroup && exec "$@"' sh "$@"`
	args := slices.Concat([]string{"-c", script, "sh", m.name}, cgroups(), m.limits)
	args = append(
		args,
		"--",
		"systemd-nspawn",
		"-D",
		m.root,
		"--boot",
		"--register=no",
		"--keep-unit",
		"--network-namespace-path=/run/netns/"+cmp.Or(m.network, m.name),
		"--machine="+m.name,
		"--hostname="+nodeName,
		"--console=read-only",
		"--link-journal=no",
		"--resolv-conf=off",
		"--timezone=off",
		"--capability=all",
	)
	cmd := exec.Command("sh", append(args, extra...)...)
	cmd.Env = append(os.Environ(), m.env...)
	console, err := os.OpenFile(m.dir+"/console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		m.t.Fatal(err)
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	m.container, m.ended = cmd, ended
	m.within(bootTime, "PID 1 answers", func() string {
		select {
		case <-ended:
			b, _ := os.ReadFile(m.dir + "/console.log")
			m.t.Fatalf("the container ended: %s", b)
		default:
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		first, _, _ := strings.Cut(string(children), " ")
		pid, number := strconv.Atoi(first)
		if err != nil || number != nil {
			return "no child yet"
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/private", pid)); err != nil {
			return err.Error()
		}
		m.leader = pid
		return ""
	})
}

// boot is start, and waits until no job is left.
func (m *machine) boot(extra ...string) {
	m.t.Helper()
	m.start(extra...)
	m.settled()
}

// settled waits until no job is left: no boot hangs, whatever goes wrong in it. PID 1 refuses the first questions of
// a boot.
func (m *machine) settled() {
	m.t.Helper()
	m.within(commandTime, "the boot has no job left", func() string {
		r := m.try("systemctl", "is-system-running", "--wait")
		if state := strings.TrimSpace(r.out); slices.Contains(
			[]string{"", "offline", "initializing", "starting"},
			state,
		) {
			return fmt.Sprintf("%s %s\n%s", state, r.errors, m.try("systemctl", "list-jobs", "--no-pager").out)
		}
		return ""
	})
}

// off powers the machine down in good order.
func (m *machine) off() {
	m.t.Helper()
	if m.leader == 0 {
		return
	}
	_ = syscall.Kill(m.leader, poweroff)
	select {
	case <-m.ended:
		m.leader = 0
	case <-time.After(offTime):
		m.t.Errorf("no power off within %s", offTime)
		m.kill()
	}
}

// kill is the plug: nothing inside gets to do another thing.
func (m *machine) kill() {
	if m.leader != 0 {
		_ = syscall.Kill(m.leader, syscall.SIGKILL)
	}
	if m.container != nil {
		select {
		case <-m.ended:
		case <-time.After(5 * time.Second):
			_ = m.container.Process.Kill()
			<-m.ended
		}
	}
	m.leader, m.container = 0, nil
}

// ran is a command that ended inside.
type ran struct {
	exit        int
	out, errors string
}

// try runs a command inside.
func (m *machine) try(args ...string) ran {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), commandTime)
	if m.t.Context().Err() != nil { // cleaning up
		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
	}
	defer cancel()
	cmd := exec.CommandContext(
		ctx,
		"nsenter",
		append([]string{"-t", strconv.Itoa(m.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "SYSTEMD_COLORS=0"}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // what it has started inside may live on, with its ends of the pipes
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		stderr.WriteString(err.Error())
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// do is try, for what must end well.
func (m *machine) do(args ...string) string {
	m.t.Helper()
	r := m.try(args...)
	if r.exit != 0 {
		m.t.Fatalf("%q: exit %d; want 0:\n%s%s", args, r.exit, r.out, r.errors)
	}
	return r.out
}

func (m *machine) journal() string {
	m.t.Helper()
	return m.try("journalctl", "-b", "--no-pager", "-o", "short-precise", "-n", "200").out
}

// property is one of a unit's, as systemctl shows it.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.try("systemctl", "show", unit, "--value", "-p", name).out)
}

// within waits until what is "" and fails with what it said last.
func (m *machine) within(d time.Duration, what string, look func() string) {
	m.t.Helper()
	deadline := time.Now().Add(d)
	for {
		why := look()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("not within %s: %s: %s", d, what, why)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// status is what `prelet status -o json` says of the last run.
type status struct {
	State      string
	Exit       int
	Summary    string
	Generation int
	Verdict    string
	Why        string
	Held       *struct{ Why string }
	Degraded   []struct{ Code, Summary string }
	Notes      []struct{ Code, Summary string }
	Gate       struct {
		Open       bool
		Generation int
		Why        string
	}
	Code int `json:"status_exit"`
}

func (m *machine) status() status {
	m.t.Helper()
	var s status
	r := m.try("prelet", "status", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		m.t.Fatalf("prelet status: exit %d: got %v; want no error:\n%s%s", r.exit, err, r.out, r.errors)
	}
	if r.exit != s.Code {
		m.t.Errorf("prelet status: exit %d, and says %d; want %d", r.exit, s.Code, s.Code)
	}
	return s
}

// verdict waits for the one on what is in place.
func (m *machine) verdict(want string) status {
	m.t.Helper()
	var s status
	m.within(90*time.Second, "verdict "+want, func() string {
		if s = m.status(); s.Verdict == want && s.State != "running" {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	return s
}

// start is what the stand-in wrote down at its exec.
type start struct {
	PID        int
	Unix       int64 `json:"unix_ms"`
	Generation string
	Labels     map[string]string
	Domain     string
	Joined     bool
	Error      string
}

// starts are those of the kubelet, of all boots.
func (m *machine) starts() (out []start) {
	m.t.Helper()
	for line := range strings.Lines(m.read("/var/log/standin/starts")) {
		var s start
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			m.t.Fatalf("%q: got %v; want no error", line, err)
		}
		out = append(out, s)
	}
	return out
}

func (m *machine) put(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.root+path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.root+path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// read is "" for a file that is not there.
func (m *machine) read(path string) string {
	m.t.Helper()
	b, err := os.ReadFile(m.root + path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	return string(b)
}

func (m *machine) exists(path string) bool {
	_, err := os.Lstat(m.root + path)
	return err == nil
}

// disk is what a boot that has nothing to do must not write to: path → mode, inode, times. Content that changes
// changes a time.
func (m *machine) disk() map[string]string {
	m.t.Helper()
	out := map[string]string{}
	for _, top := range []string{"/etc", "/var/lib/kubelet", "/var/lib/prelet"} {
		err := filepath.WalkDir(m.root+top, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			out[strings.TrimPrefix(p, m.root)] = fmt.Sprintf(
				"%s inode %d, modified %d.%09d, changed %d.%09d",
				info.Mode(),
				st.Ino,
				st.Mtim.Sec,
				st.Mtim.Nsec,
				st.Ctim.Sec,
				st.Ctim.Nsec,
			)
			return nil
		})
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return out
}

// differs lists the paths that are not the same on both.
func differs(before, after map[string]string) (out []string) {
	for p, b := range before {
		if after[p] != b {
			out = append(out, fmt.Sprintf("%s: %s, was %s", p, after[p], b))
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			out = append(out, p+": new")
		}
	}
	slices.Sort(out)
	return out
}
