package recipes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/test/nspawn"
)

const commandTime = 90 * time.Second

// machine is a copy of the image, in memory, that systemd-nspawn boots: with its own network, on the bridge of the
// tests, and an address by DHCP.
type machine struct {
	*nspawn.Machine
	name string // also of the Node
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
	var dir string
	t.Cleanup(func() { // after that of the machine
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("the folder of %s: it is still there, want it removed", name)
		}
	})
	m := &machine{nspawn.New(t, os.TempDir()), name}
	dir = m.Dir
	m.Options = []string{"--network-bridge=" + bridge, "--machine=" + name}
	m.Process = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, m.Overlay(image))

	m.Put("/etc/prelet/90-container.hcl", strings.ReplaceAll(containerSite, "NAME", name), 0o644)
	m.Put("/etc/systemd/system/kubelet.service.d/90-container.conf", containerUnit, 0o644)

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

// address returns the address that the DHCP server gave to the machine.
func (m *machine) address() string {
	m.T.Helper()
	fields := strings.Fields(m.Do("ip", "-4", "-brief", "address", "show", "dev", "host0"))
	if len(fields) < 3 {
		m.T.Fatalf("addresses of host0: got %q, want one", fields)
	}
	ip, _, _ := strings.Cut(fields[2], "/")

	return ip
}

// unmount unmounts a path, unless nothing is mounted there.
func (m *machine) unmount(path string) {
	m.T.Helper()
	err := syscall.Unmount(path, syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		m.T.Errorf("unmount %s: got %v, want no error", path, err)
	}
}

// try runs a command in the booted machine, and returns all of its output.
func (m *machine) try(args ...string) (output string, exit int) {
	m.T.Helper()
	r := m.Try(args...)

	return r.Out + r.Errors, r.Exit
}

// status is a part of `prelet status -o json`.
type status struct {
	State, Summary, Verdict string
	Exit, Generation        int
	Gate                    struct{ Open bool }
}

func (m *machine) status() (s status) {
	m.T.Helper()
	out, exit := m.try("prelet", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		m.T.Fatalf("prelet status: exit %d: %v\n%s", exit, err, out)
	}

	return s
}

// requireJoined waits for the verdict, and compares the Node in the cluster.
func (m *machine) requireJoined(zone string) {
	m.T.Helper()
	m.Within(commandTime, "the verdict is good", func() string {
		if s := m.status(); s.Verdict != "good" || !s.Gate.Open || s.State == "running" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	out, err := shared.kubectl("get", "node", m.name, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone} `+
		`{.status.nodeInfo.containerRuntimeVersion}`)
	if err != nil {
		m.T.Fatalf("node %s: got %v, want it in the cluster\n%s", m.name, err, out)
	}
	if got, runtime, _ := strings.Cut(out, " "); got != zone || !strings.HasPrefix(runtime, "containerd://") {
		m.T.Errorf("node %s: got zone %q and runtime %q, want %q and containerd", m.name, got, runtime, zone)
	}
}

// search returns the files of the machine's disk that contain a text, below its root.
func (m *machine) search(text string) []string {
	m.T.Helper()
	var out bytes.Buffer
	cmd := exec.Command("grep", "--recursive", "--files-with-matches", "--binary-files=text", "--fixed-strings",
		"--devices=skip", "-e", text, m.Dir+"/disk/upper")
	cmd.Stdout = &out
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() > 1) {
		m.T.Fatalf("searching the disk of %s: %v", m.name, err)
	}

	return strings.Fields(strings.ReplaceAll(out.String(), m.Dir+"/disk/upper", ""))
}
