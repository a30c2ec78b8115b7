// Package nspawn boots a Debian system in a container of systemd-nspawn, for tests as root. It has what their suites
// share: a machine's disk, boot, commands, end, and the removal of a test's leftovers. A suite embeds Machine and adds
// its files, network and options.
package nspawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BootTime is the limit of a start until PID 1 answers, and of a power off.
const BootTime = time.Minute

// Machine is a container whose disk survives its reboots.
type Machine struct {
	T      *testing.T
	Name   string // of its control groups and, if it has one, of its network namespace
	Dir    string // has its disk and console.log
	Root   string // its disk
	Leader int    // its PID 1, as the test sees it; 0 while it is off

	Options     []string             // of systemd-nspawn at each boot: the network, the name
	Env         []string             // of systemd-nspawn, in addition to that of the test
	Limits      []string             // control groups that it is in, in addition to those of systemd
	Process     *syscall.SysProcAttr // of systemd-nspawn
	CommandTime time.Duration        // limit of a command

	container *exec.Cmd
	ended     chan struct{}
}

// New returns a machine in a new folder of parent, without a disk. The end of the test removes it.
func New(t *testing.T, parent string) *Machine {
	t.Helper()
	booted.Watch(t)
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("prelet-%d-", os.Getpid()))
	m := &Machine{
		T:           t,
		Name:        filepath.Base(dir),
		Dir:         dir,
		Root:        filepath.Join(dir, "root"),
		CommandTime: 90 * time.Second,
	}
	m.Must(err)
	t.Cleanup(m.remove)
	m.Must(os.Mkdir(m.Root, 0o755))

	return m
}

// Must ends the test at an error.
func (m *Machine) Must(errs ...error) {
	m.T.Helper()
	if err := errors.Join(errs...); err != nil {
		m.T.Fatal(err)
	}
}

// Overlay mounts a disk in memory over the layers of an image, the uppermost first. A file is kept whether it was
// fsynced or not.
func (m *Machine) Overlay(layers ...string) error {
	disk := m.Dir + "/disk"

	return errors.Join(
		os.Mkdir(disk, 0o755),
		syscall.Mount("tmpfs", disk, "tmpfs", 0, "mode=755"),
		os.Mkdir(disk+"/upper", 0o755),
		os.Mkdir(disk+"/work", 0o755),
		syscall.Mount("overlay", m.Root, "overlay", 0,
			fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work", strings.Join(layers, ":"), disk)),
	)
}

// enter moves the shell into the control groups before "--", and executes the command after it with a private mount of
// version 2 alone, whatever the host has.
const enter = `while [ "$1" != -- ]; do mkdir -p "$1"; echo $$ >"$1/cgroup.procs"; shift; done; shift
exec unshare -m --propagation slave sh -c 'umount -R /sys/fs/cgroup &&
	mount -t cgroup2 -o rw,nosuid,nodev,noexec cgroup2 /sys/fs/cgroup && exec "$@"' sh "$@"`

// Start begins a boot, and returns when PID 1 answers. The options of systemd-nspawn are of this boot.
func (m *Machine) Start(options ...string) {
	m.T.Helper()
	args := append([]string{"-c", enter, "sh"}, groups(m.Name)...)
	for _, limit := range m.Limits {
		args = append(args, filepath.Join(limit, m.Name))
	}
	args = append(
		args,
		"--",
		"systemd-nspawn",
		"-D", m.Root,
		"--boot",
		"--register=no",
		"--keep-unit",
		"--console=read-only",
		"--link-journal=no",
		"--resolv-conf=off",
		"--timezone=off",
		"--capability=all",
	)
	cmd := exec.Command("sh", slices.Concat(args, m.Options, options)...)
	cmd.Env = append(os.Environ(), m.Env...)
	cmd.SysProcAttr = m.Process
	console, err := os.OpenFile(m.Dir+"/console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	m.Must(err)
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	m.Must(cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	m.container, m.ended = cmd, ended

	m.Within(BootTime, "PID 1 answers", func() string {
		select {
		case <-ended:
			text, _ := os.ReadFile(console.Name())
			m.T.Fatalf("the container ended; want a boot:\n%s", text)
		default:
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		first, _, _ := strings.Cut(string(children), " ")
		pid, number := strconv.Atoi(first)
		if err != nil || number != nil {
			return "no child yet"
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/private", pid)); err != nil {
			return err.Error()
		}
		m.Leader = pid

		return ""
	})
}

// Boot is Start, and waits until no job is left.
func (m *Machine) Boot(options ...string) {
	m.T.Helper()
	m.Start(options...)
	m.Settle()
}

// Settle waits until no job is left: no boot hangs, whatever goes wrong in it. PID 1 refuses the first questions of
// a boot.
func (m *Machine) Settle() {
	m.T.Helper()
	m.Within(90*time.Second, "the boot has no job left", func() string {
		r := m.Try("systemctl", "is-system-running", "--wait")
		state := strings.TrimSpace(r.Out)
		if slices.Contains([]string{"", "offline", "initializing", "starting"}, state) {
			return state + " " + r.Errors + "\n" + m.Try("systemctl", "list-jobs", "--no-pager").Out
		}
		return ""
	})
}

// Off powers the machine down in good order.
func (m *Machine) Off() {
	m.T.Helper()
	if m.Leader == 0 {
		return
	}
	_ = syscall.Kill(m.Leader, 34+4) // SIGRTMIN+4
	select {
	case <-m.ended:
		m.Leader = 0
	case <-time.After(BootTime):
		m.T.Errorf("the machine runs; want a power off within %s", BootTime)
		m.Kill()
	}
}

// Kill is the plug: nothing inside gets to do another thing.
func (m *Machine) Kill() {
	if m.Leader != 0 {
		_ = syscall.Kill(m.Leader, syscall.SIGKILL)
	}
	if m.container != nil {
		select {
		case <-m.ended:
		case <-time.After(5 * time.Second):
			_ = m.container.Process.Kill()
			<-m.ended
		}
	}
	m.Leader, m.container = 0, nil
}

// Ran is a command that ended inside.
type Ran struct {
	Exit        int
	Out, Errors string
}

// Try runs a command inside.
func (m *Machine) Try(args ...string) Ran {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(m.T.Context(), m.CommandTime)
	if ctx.Err() != nil { // cleaning up
		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
	}
	defer cancel()
	enter := []string{"-t", strconv.Itoa(m.Leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C.UTF-8",
		"SYSTEMD_COLORS=0",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // its children inside may live on, with their ends of the pipes
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		stderr.WriteString(err.Error())
	}

	return Ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Do is Try, for a command that must succeed.
func (m *Machine) Do(args ...string) string {
	m.T.Helper()
	r := m.Try(args...)
	if r.Exit != 0 {
		m.T.Fatalf("%q: exit %d; want 0:\n%s%s", args, r.Exit, r.Out, r.Errors)
	}

	return r.Out
}

// Journal is the end of the boot's journal.
func (m *Machine) Journal() string {
	m.T.Helper()
	return m.Try("journalctl", "-b", "--no-pager", "-o", "short-precise", "-n", "200").Out
}

// Within waits until look returns "", and fails with its last text.
func (m *Machine) Within(limit time.Duration, what string, look func() string) {
	m.T.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		why := look()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			m.T.Fatalf("not within %s: %s: %s", limit, what, why)
		}
	}
}

// Put writes a file of the disk, and makes the folders above it.
func (m *Machine) Put(path, text string, mode fs.FileMode) {
	m.T.Helper()
	path = m.Root + path
	m.Must(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode))
}

// Exists reports whether something is at path. A link is not followed.
func (m *Machine) Exists(path string) bool {
	_, err := os.Lstat(m.Root + path)
	return err == nil
}

// remove ends the machine and removes its files and mounts.
func (m *Machine) remove() {
	if m.T.Failed() && m.Leader != 0 {
		m.T.Logf("%s: %s\n%s", m.Name, m.Try("systemctl", "--no-pager", "--failed").Out, m.Journal())
	}
	m.Kill()
	removeMachine(m.Dir)
}
