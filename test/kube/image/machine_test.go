package image

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// platform is what differs between the virtual machines of two architectures.
type platform struct {
	program             string   // of QEMU
	firmware, variables string   // UEFI, by Debian's packages, and where it stores its variables
	kvm, emulated       []string // the processor
	board               []string
	tpm                 string // QEMU's name of the device
}

// platforms are the architectures that an image may have, by Go's names. The CPU of arm64 is that of a server: QEMU
// emulates it twice as fast as "max", whose pointer authentication is slow.
var platforms = map[string]platform{
	"amd64": {
		program:   "qemu-system-x86_64",
		firmware:  "/usr/share/OVMF/OVMF_CODE_4M.fd",
		variables: "/usr/share/OVMF/OVMF_VARS_4M.fd",
		kvm:       []string{"-accel", "kvm", "-cpu", "host"},
		emulated:  []string{"-accel", "tcg,thread=multi", "-cpu", "max"},
		board:     []string{"-machine", "q35"},
		tpm:       "tpm-crb",
	},
	"arm64": {
		program:   "qemu-system-aarch64",
		firmware:  "/usr/share/AAVMF/AAVMF_CODE.fd",
		variables: "/usr/share/AAVMF/AAVMF_VARS.fd",
		kvm:       []string{"-accel", "kvm", "-cpu", "host"},
		emulated:  []string{"-accel", "tcg,thread=multi", "-cpu", "neoverse-n1"},
		board:     []string{"-machine", "virt,gic-version=3"},
		tpm:       "tpm-tis-device",
	},
}

// patience is how long a test waits for what a boot leads to, also with an emulated processor on a busy machine.
const patience = 10 * time.Minute

// architecture is that of the image.
func architecture() string { return cmp.Or(os.Getenv("PRELET_IMAGE_ARCH"), runtime.GOARCH) }

// machine is a virtual machine with a disk of its own, whose first content is the golden image.
type machine struct {
	platform

	t      *testing.T
	dir    string
	serial string   // of the product, which names the node
	args   []string // of QEMU, at the last start
	cmd    *exec.Cmd
	ended  chan struct{}
	output bytes.Buffer // of QEMU, after it has ended
	agent  *agent
}

// newMachine makes the disk of a machine.
func newMachine(t *testing.T, serial string) *machine {
	t.Helper()
	image := os.Getenv(imageVariable)
	m := &machine{platform: platforms[architecture()], t: t, dir: t.TempDir(), serial: serial}
	m.command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image, m.path("disk"))
	m.command("cp", m.variables, m.path("variables"))
	t.Cleanup(func() {
		if t.Failed() {
			m.explain()
		}
		m.cut()
	})

	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// command runs a program of this machine.
func (m *machine) command(words ...string) {
	m.t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		m.t.Fatalf("%q: got %v: %s; want no error", words, err, out)
	}
}

// hasKVM reports whether QEMU can use the kernel's virtual machines. A device that can be opened is not enough: nested
// ones may stop at the first instructions of the firmware.
func (p platform) hasKVM() bool {
	if architecture() != runtime.GOARCH {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, slices.Concat(p.board, p.kvm, []string{
		"-display", "none", "-monitor", "none", "-nodefaults",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + p.firmware,
	})...)
	out, _ := cmd.CombinedOutput() // it runs until the time is over, or cannot start

	return ctx.Err() != nil && !strings.Contains(string(out), "KVM internal error")
}

// start turns the machine on and waits until its agent answers.
func (m *machine) start(args ...string) {
	m.t.Helper()
	m.turnOn(args...)

	began := time.Now()
	m.within(patience, "the machine's agent answers", m.connect)
	m.t.Logf("the agent answered after %s", time.Since(began).Round(time.Second))

	// For the table of systems (tools/matrix).
	const ask = `. /etc/os-release; echo $VERSION_CODENAME $(dpkg-query -W -f '${Version}' systemd)`
	debian, systemd, _ := strings.Cut(strings.TrimSpace(m.run("sh", "-c", ask)), " ")
	systemd, _, _ = strings.Cut(systemd, "-")
	m.t.Attr("debian", debian)
	m.t.Attr("architecture", architecture())
	m.t.Attr("systemd", systemd)
}

// turnOn turns the machine on.
func (m *machine) turnOn(args ...string) {
	m.t.Helper()
	m.args = args
	processor := m.emulated
	if m.hasKVM() {
		processor = m.kvm
	}
	words := slices.Concat(m.board, processor, []string{
		"-smp", "2", "-m", "2560", "-display", "none", "-monitor", "none", "-no-reboot",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + m.firmware,
		"-drive", "if=pflash,format=raw,unit=1,file=" + m.path("variables"),
		"-drive", "if=virtio,format=qcow2,file=" + m.path("disk"),
		"-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=",
		"-serial", "file:" + m.path("console"),
		"-chardev", "socket,id=agent,server=on,wait=off,path=" + m.path("agent"),
		"-device", "virtio-serial", "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
		"-smbios", "type=1,product=Golden Machine,serial=" + m.serial,
	}, args)

	m.cmd = exec.Command(m.program, words...)
	m.output.Reset()
	m.cmd.Stdout, m.cmd.Stderr = &m.output, &m.output
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.ended = make(chan struct{})
	go func() { defer close(m.ended); _ = m.cmd.Wait() }()
}

// connect returns why the agent does not answer, or "".
func (m *machine) connect() string {
	select {
	case <-m.ended:
		m.t.Fatalf("QEMU ended; want a machine that runs:\n%s", m.output.String())
	default:
	}
	if m.agent != nil {
		_ = m.agent.conn.Close()
		m.agent = nil
	}

	var err error
	if m.agent, err = dial(m.path("agent")); err != nil {
		return err.Error()
	}

	return ""
}

// cut cuts the power: what the guest's kernel has not written to the disk is lost. What it has written stays, also
// without a flush.
func (m *machine) cut() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	<-m.ended
	m.cmd = nil
}

// off shuts the machine down.
func (m *machine) off() { m.t.Helper(); m.stop("poweroff") }

// reboot reboots the machine. QEMU ends instead of resetting it (-no-reboot) and is started again, because the firmware
// sometimes hangs after a reset of an emulated processor.
func (m *machine) reboot() {
	m.t.Helper()
	m.stop("reboot")
	m.start(m.args...)
}

func (m *machine) stop(verb string) {
	m.t.Helper()
	_, _ = m.agent.run("", "systemctl", "--no-block", verb) // the agent may end before it answers
	select {
	case <-m.ended:
		m.cmd = nil
	case <-time.After(patience):
		m.t.Fatalf("the machine runs %s after `systemctl %s`; want its end", patience, verb)
	}
}

// try runs a command in the machine.
func (m *machine) try(words ...string) result {
	m.t.Helper()
	r, err := m.agent.run("", words...)
	if err != nil {
		m.t.Fatal(err)
	}

	return r
}

// run runs a command that succeeds, and returns its output.
func (m *machine) run(words ...string) string {
	m.t.Helper()
	r := m.try(words...)
	if r.exit != 0 {
		m.t.Fatalf("%q: got %s; want exit 0", words, r)
	}

	return r.out
}

// put writes a file in the machine, for root only.
func (m *machine) put(path, text string) {
	m.t.Helper()
	r, err := m.agent.run(text, "sh", "-c", `umask 077 && mkdir -p -m 755 "${0%/*}" && cat >"$0"`, path)
	if err != nil || r.exit != 0 {
		m.t.Fatalf("write %s: got %v, %s; want exit 0", path, err, r)
	}
}

func (m *machine) property(unit, name string) string {
	m.t.Helper()

	return strings.TrimSpace(m.run("systemctl", "show", "--value", "-p", name, unit))
}

func (m *machine) within(d time.Duration, what string, look func() string) {
	m.t.Helper()
	for deadline := time.Now().Add(d); ; time.Sleep(500 * time.Millisecond) {
		why := look()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("not within %s: %s: %s", d, what, why)
		}
	}
}

// status is what the test reads of `prelet status -o json`.
type status struct {
	State      string
	Code       string
	Summary    string
	Generation int
	Verdict    string
	Degraded   []struct{ Code, Summary string }
	Gate       struct{ Open bool }
	RunExit    int `json:"exit"`        // of the run; 0 while it runs
	Exit       int `json:"status_exit"` // of `prelet status`: 0 if this boot has ended well
}

// isWell reports whether this boot has ended well. Facts, or the answer of the kubelet's binary, may be missing because
// they took longer than prelet waits: the processor may be emulated on a busy machine.
func (s status) isWell() bool {
	isOther := func(reason struct{ Code, Summary string }) bool {
		return reason.Code != "hardware-degraded" && !strings.Contains(reason.Summary, "no answer within")
	}

	return s.Exit == 0 || s.Verdict == "good" && len(s.Degraded) > 0 && !slices.ContainsFunc(s.Degraded, isOther)
}

func (m *machine) status() status {
	m.t.Helper()
	r := m.try("prelet", "status", "-o", "json")
	var s status
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		m.t.Fatalf("prelet status -o json: got %s; want JSON: %v", r, err)
	}

	return s
}

// healthy waits until the run of this boot has ended well, with the kubelet's verdict if there was a change.
func (m *machine) healthy() status {
	m.t.Helper()
	var s status
	m.within(patience, "prelet is healthy", func() string {
		if s = m.status(); s.isWell() && s.Gate.Open {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})

	return s
}

// settled waits until the run of this boot has ended with an exit status, the gate is open and the kubelet runs.
func (m *machine) settled(exit int) status {
	m.t.Helper()
	var s status
	m.within(patience, fmt.Sprintf("the run ends with %d, and the kubelet runs", exit), func() string {
		s = m.status()
		if s.State != "" && s.State != "running" && s.RunExit == exit && s.Gate.Open &&
			m.property("kubelet", "MainPID") != "0" {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})

	return s
}

// keep writes the journal of this boot next to the image, and logs its path.
func (m *machine) keep(name string) {
	m.t.Helper()
	path := filepath.Join(filepath.Dir(os.Getenv(imageVariable)), name+".journal")
	text := m.run("journalctl", "-b", "--no-pager", "-o", "short-monotonic")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.t.Logf("the journal of this boot: %s", path)
}

// explain logs what a person would look at after a failure.
func (m *machine) explain() {
	if file, err := os.Open(m.path("console")); err == nil {
		defer file.Close()
		text, _ := io.ReadAll(file)
		m.t.Logf("the end of the console:\n%s", text[max(0, len(text)-3000):])
	}
	if m.agent == nil {
		return
	}
	r, err := m.agent.run("", "sh", "-c", `prelet status; systemctl --no-pager --failed; systemctl --no-pager list-jobs
		journalctl -b --no-pager -n 60 -u prelet -u prelet-verify -u kubelet -u containerd
		networkctl status --no-pager`)
	m.t.Logf("in the machine: %v, %s", err, r)
}
