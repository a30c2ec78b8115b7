package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	bootTime    = time.Minute
	commandTime = 90 * time.Second
)

// machine is a copy of the image, in memory, that systemd-nspawn boots: with its own network, on the bridge of the
// tests, and an address by DHCP.
type machine struct {
	t         *testing.T
	name      string // also of the Node
	dir, root string
	container *exec.Cmd
	ended     chan struct{}
	leader    int // pid of its systemd
}

// newMachine mounts a machine that has the image of mkosi.
func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	requireWanted(t)
	image, err := filepath.Abs(".cache/node")
	must(t, err)

	return newMachineOn(t, name, image)
}

// newMachineOn mounts a machine. Its copy of the image has no variable and no credential, and what a container needs
// that a machine does not.
func newMachineOn(t *testing.T, name, image string) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "prelet-recipes-") // not t.TempDir, which would remove what is still mounted
	must(t, err)
	m := &machine{t: t, name: name, dir: dir, root: dir + "/root"}
	t.Cleanup(m.remove)
	must(t, syscall.Mount("tmpfs", m.dir, "tmpfs", 0, "mode=755"))
	for _, dir := range []string{"upper", "work", "root"} {
		must(t, os.Mkdir(m.dir+"/"+dir, 0o755))
	}
	must(t, syscall.Mount("overlay", m.root, "overlay", 0,
		fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", image, m.dir, m.dir)))

	m.write("/etc/prelet/90-container.hcl", strings.ReplaceAll(containerSite, "NAME", name), 0o644)
	m.write("/etc/systemd/system/kubelet.service.d/90-container.conf", containerUnit, 0o644)

	return m
}

// containerSite replaces what a container does not have: a serial number, and controllers of control groups.
const containerSite = `
override {
  node { name = "NAME" }
  stage "write" "kubelet" {
    kubelet_config {
      patch = {
        authentication         = { x509 = { clientCAFile = "/etc/kubernetes/pki/ca.crt" } }
        cgroupDriver           = "systemd"
        cgroupsPerQOS          = false
        enforceNodeAllocatable = []
      }
    }
  }
  stage "restart" "kubelet" {
    verify {
      settle  = "2s"
      timeout = "60s"
    }
  }
}
`

// containerUnit gives the kubelet a /dev/kmsg, and its own files for settings of the kernel that it changes.
const containerUnit = `[Service]
ExecStartPre=/bin/sh -c 'mkdir -p /run/kernel; [ -e /dev/kmsg ] || ln -s /dev/null /dev/kmsg; \
for v in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do \
f=/run/kernel/$$(echo $${v%%=*} | tr / .); [ -e $$f ] && continue; echo $${v#*=} >$$f; \
mount --bind $$f /proc/sys/$${v%%=*}; done'
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// boot starts the machine and waits until no job of systemd is left. options are of systemd-nspawn.
func (m *machine) boot(options ...string) {
	m.t.Helper()
	// Its own control group, below a mount of version 2 only, whatever this machine has.
	const script = `name=$1; shift
for h in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
	[ -e $h/cgroup.procs ] || continue
	mkdir -p "$h/$name" && echo $$ >"$h/$name/cgroup.procs"
done
exec unshare -m --propagation slave sh -c 'umount -R /sys/fs/cgroup &&
	mount -t cgroup2 -o rw,nosuid,nodev,noexec cgroup2 /sys/fs/cgroup && exec "$@"' sh "$@"`
	args := []string{
		"-c", script, "sh", m.group(), "systemd-nspawn", "--boot", "-D", m.root, "--register=no", "--keep-unit",
		"--network-bridge=" + bridge, "--machine=" + m.name, "--console=read-only", "--link-journal=no", "--resolv-conf=off",
		"--timezone=off", "--capability=all",
	}
	m.container = exec.Command("sh", append(args, options...)...)
	console, err := os.OpenFile(m.dir+"/console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(m.t, err)
	defer console.Close()
	m.container.Stdout, m.container.Stderr = console, console
	m.container.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(m.t, m.container.Start())
	m.ended = make(chan struct{})
	go func() { _ = m.container.Wait(); close(m.ended) }()

	m.waitFor(bootTime, "systemd answers", func() string {
		select {
		case <-m.ended:
			text, _ := os.ReadFile(m.dir + "/console.log")
			m.t.Fatalf("the container ended:\n%s", text)
		default:
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", m.container.Process.Pid, m.container.Process.Pid))
		first, _, _ := strings.Cut(string(text), " ")
		pid, err := strconv.Atoi(first)
		if err != nil {
			return "not yet a process in the container"
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/private", pid)); err != nil {
			return err.Error()
		}
		m.leader = pid

		return ""
	})
	m.waitFor(commandTime, "no job of the boot is left", func() string {
		out, _ := m.try("systemctl", "is-system-running", "--wait")
		switch state := strings.TrimSpace(out); state {
		case "running", "degraded":
			return ""
		default:
			jobs, _ := m.try("systemctl", "list-jobs", "--no-pager")
			return state + "\n" + jobs
		}
	})
}

func (m *machine) group() string { return fmt.Sprintf("prelet-recipes-%d-%s", os.Getpid(), m.name) }

// stop powers the machine off. Its disk stays.
func (m *machine) stop() {
	m.t.Helper()
	const poweroff = syscall.Signal(34 + 4) // SIGRTMIN+4
	_ = syscall.Kill(m.leader, poweroff)
	select {
	case <-m.ended:
	case <-time.After(bootTime):
		m.t.Errorf("the machine did not power off within %s", bootTime)
		_ = syscall.Kill(m.leader, syscall.SIGKILL)
		<-m.ended
	}
	m.leader = 0
}

// cutPower ends the machine at once. Its disk stays.
func (m *machine) cutPower() {
	_ = syscall.Kill(m.leader, syscall.SIGKILL)
	<-m.ended
	m.leader = 0
}

// address returns the address that the DHCP server gave to the machine.
func (m *machine) address() string {
	m.t.Helper()
	fields := strings.Fields(m.run("ip", "-4", "-brief", "address", "show", "dev", "host0"))
	if len(fields) < 3 {
		m.t.Fatalf("addresses of host0: got %q, want one", fields)
	}
	ip, _, _ := strings.Cut(fields[2], "/")

	return ip
}

func (m *machine) remove() {
	if m.t.Failed() && m.leader != 0 {
		failed, _ := m.try("systemctl", "--no-pager", "--failed")
		journal, _ := m.try("journalctl", "-b", "--no-pager", "-o", "short-monotonic", "-n", "150")
		m.t.Logf("%s: %s\n%s", m.name, failed, journal)
	}
	if m.leader != 0 {
		m.cutPower()
	} else if m.container != nil && m.container.ProcessState == nil {
		_ = m.container.Process.Kill()
		<-m.ended
	}
	m.unmount(m.root)
	m.unmount(m.dir)
	if err := os.Remove(m.dir); err != nil { // it is empty, if nothing is mounted
		m.t.Errorf("remove the folder of %s: got %v, want no error; it stays", m.name, err)
	}
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"} {
		group := hierarchy + "/" + m.group()
		for range 40 { // a killed process is in it for a moment
			if _, err := os.Stat(group); errors.Is(err, fs.ErrNotExist) {
				break
			}
			_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// unmount unmounts a path, unless nothing is mounted there.
func (m *machine) unmount(path string) {
	m.t.Helper()
	err := syscall.Unmount(path, syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		m.t.Errorf("unmount %s: got %v, want no error", path, err)
	}
}

// try runs a command in the booted machine.
func (m *machine) try(args ...string) (output string, exit int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append(
		[]string{"-t", strconv.Itoa(m.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "SYSTEMD_COLORS=0"}
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()

	return out.String(), cmd.ProcessState.ExitCode()
}

// run is try for a command that must succeed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, exit := m.try(args...)
	if exit != 0 {
		m.t.Fatalf("%q: got exit %d, want 0\n%s", args, exit, out)
	}

	return out
}

// waitFor waits until look returns "", and fails with its last text.
func (m *machine) waitFor(limit time.Duration, what string, look func() string) {
	m.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		text := look()
		if text == "" {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: timed out after %s: %s: %s", m.name, limit, what, text)
		}
	}
}

func (m *machine) write(path, content string, mode os.FileMode) {
	m.t.Helper()
	must(m.t, os.MkdirAll(filepath.Dir(m.root+path), 0o755))
	must(m.t, os.WriteFile(m.root+path, []byte(content), mode))
	must(m.t, os.Chmod(m.root+path, mode))
}

// exists reports whether something is at path. A link is not followed.
func (m *machine) exists(path string) bool {
	_, err := os.Lstat(m.root + path)
	return err == nil
}

// status is a part of `prelet status -o json`.
type status struct {
	State, Summary, Verdict string
	Exit, Generation        int
	Gate                    struct{ Open bool }
}

func (m *machine) status() (s status) {
	m.t.Helper()
	out, exit := m.try("prelet", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		m.t.Fatalf("prelet status: exit %d: %v\n%s", exit, err, out)
	}

	return s
}

// requireJoined waits for the verdict, and compares the Node in the cluster.
func (m *machine) requireJoined(zone string) {
	m.t.Helper()
	m.waitFor(commandTime, "the verdict is good", func() string {
		if s := m.status(); s.Verdict != "good" || !s.Gate.Open || s.State == "running" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	out, err := shared.kubectl("get", "node", m.name, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone} `+
		`{.status.nodeInfo.containerRuntimeVersion}`)
	if err != nil {
		m.t.Fatalf("node %s: got %v, want it in the cluster\n%s", m.name, err, out)
	}
	if got, runtime, _ := strings.Cut(out, " "); got != zone || !strings.HasPrefix(runtime, "containerd://") {
		m.t.Errorf("node %s: got zone %q and runtime %q, want %q and containerd", m.name, got, runtime, zone)
	}
}

// search returns the files of the machine's disk that contain a text, below its root.
func (m *machine) search(text string) []string {
	m.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("grep", "--recursive", "--files-with-matches", "--binary-files=text", "--fixed-strings",
		"--devices=skip", "-e", text, m.dir+"/upper")
	cmd.Stdout = &out
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() > 1) {
		m.t.Fatalf("searching the disk of %s: %v", m.name, err)
	}

	return strings.Fields(strings.ReplaceAll(out.String(), m.dir+"/upper", ""))
}
