package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const kubeletService = "kubelet.service"

// Service is the state of the kubelet in the node's service manager.
type Service struct {
	Active, Sub, Result string
	PID                 uint32 // in the node's own numbers
	Restarts            uint32
}

// Systemctl is "start", "stop" or "restart" of the node's kubelet, after its unit has been read again.
func (n *Node) Systemctl(ctx context.Context, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, words := range [][]string{{"daemon-reload"}, {verb, kubeletService}} {
		r, err := n.Run(ctx, append([]string{"systemctl"}, words...)...)
		if err != nil {
			return err
		}
		if r.Exit != 0 {
			return fmt.Errorf("systemctl %s: %s", strings.Join(words, " "), r)
		}
	}

	return nil
}

// StopKubelet stops the kubelet's unit. One that is stopped while it exits is a failed one, and pods may run under such
// a kubelet: its failure is reset.
func (n *Node) StopKubelet(ctx context.Context) error {
	if err := n.Systemctl(ctx, "stop"); err != nil {
		return err
	}

	_, err := n.Run(ctx, "systemctl", "reset-failed") // of all units: one that is not loaded would be an error

	return err
}

// Service looks at the kubelet.
func (n *Node) Service(ctx context.Context) (Service, error) {
	r, err := n.Run(ctx, "systemctl", "show", kubeletService)
	if err != nil || r.Exit != 0 {
		return Service{}, fmt.Errorf("systemctl show: %w: %s", err, r)
	}
	p := map[string]string{}
	for line := range strings.Lines(r.Out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		p[name] = value
	}
	pid, err := strconv.Atoi(p["MainPID"])
	restarts, err2 := strconv.Atoi(p["NRestarts"])

	return Service{
		Active:   p["ActiveState"],
		Sub:      p["SubState"],
		Result:   p["Result"],
		PID:      uint32(pid),
		Restarts: uint32(restarts),
	}, errors.Join(err, err2)
}

// KubeletLog returns the kubelet's output since its first start.
func (n *Node) KubeletLog() string {
	text, _ := n.Read("/var/log/kubelet.log")
	return text
}

// OpenGate lets the kubelet start, as prelet does at the end: for tests that start it on files of their own.
func (n *Node) OpenGate() error {
	return n.Write("/run/prelet/kubelet.env", "PRELET_GENERATION=0\n", 0o644)
}

// The container runtimes that a node can have.
const (
	FakeRuntime = "fake" // Kubernetes' own fake, which runs no container
	Containerd  = "containerd"
)

// socket is where a runtime answers: as containerd has it.
const socket = "/run/containerd/containerd.sock"

// StartFakeRuntime starts Kubernetes' fake of a runtime at containerd's socket. driver is the cgroup driver that it
// reports: cgroupfs, systemd, or none.
func (n *Node) StartFakeRuntime(ctx context.Context, driver string) error {
	if err := os.MkdirAll(n.Root()+filepath.Dir(socket), 0o755); err != nil {
		return err
	}
	_, err := n.Background(
		filepath.Join("/opt/helpers", "fakecri"),
		socket,
		driver,
		"/",
	)
	if err != nil {
		return err
	}
	return n.answers(ctx, socket)
}

// StartContainerd starts Debian's containerd with a declared pod network, which is enough for a Ready node. driver is
// its cgroup driver, cgroupfs or systemd, which this containerd does not report to the kubelet.
func (n *Node) StartContainerd(ctx context.Context, driver string) error {
	return n.containerd(ctx, "containerd", driver)
}

// StopContainerd stops the first containerd and waits for its end. Its containers keep running.
func (n *Node) StopContainerd(ctx context.Context) error {
	r, err := n.Run(
		ctx,
		"sh",
		"-ec",
		`pid=$(cat /run/containerd.pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.1; done; rm -f `+socket,
	)
	if err == nil && r.Exit != 0 {
		err = errors.New(r.String())
	}
	return err
}

// OtherSocket is where a second containerd answers.
const OtherSocket = "/run/containerd-other/containerd.sock"

// StartOtherContainerd starts a second containerd with its own folders.
func (n *Node) StartOtherContainerd(ctx context.Context, driver string) error {
	return n.containerd(ctx, "containerd-other", driver)
}

func (n *Node) containerd(ctx context.Context, name, driver string) error {
	config := "/etc/" + name + "/config.toml"
	err := errors.Join(
		n.Write(
			config,
			fmt.Sprintf(containerdConfig, name, PauseImage, driver == "systemd"),
			0o644,
		),
		n.Write("/etc/cni/net.d/10-loopback.conflist", network, 0o644),
	)
	if err != nil {
		return err
	}
	_, err = n.Background(
		"sh",
		"-c",
		`echo $$ >"$1.pid" && exec /usr/bin/containerd --config "$0"`,
		config,
		"/run/"+name,
	)
	if err != nil {
		return err
	}
	return n.answers(ctx, "/run/"+name+"/containerd.sock")
}

const (
	// PauseImage is the image of a pod's sandbox. It is imported, not pulled.
	PauseImage = "localhost/pause:1"

	// Where root may not lower oom_score_adj, as in some containers, runc starts nothing that asks for it.
	containerdConfig = `version = 2
root = "/var/lib/containerd/%[1]s"
state = "/run/%[1]s"
[grpc]
  address = "/run/%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = %[3]t
`
	network = `{"cniVersion": "0.4.0", "name": "loopback", "plugins": [{"type": "loopback"}]}`
)

// HasContainerd says whether build.sh could fetch one.
func (p Programs) HasContainerd() bool {
	_, err := os.Stat(filepath.Join(p.Cache, "containerd", "usr/bin/containerd"))
	return err == nil
}

// answers waits for the runtime's socket.
func (n *Node) answers(ctx context.Context, socket string) error {
	return waitFor(ctx, 20*time.Second, "the runtime answers", func() string {
		if _, err := os.Stat(n.Root() + socket); err != nil {
			return err.Error()
		}
		return ""
	})
}

// WantKubelet starts the kubelet while the gate is shut, as each boot does: it fails and is restarted until prelet
// opens the gate. prelet does not start a kubelet whose start was never requested.
func (n *Node) WantKubelet(ctx context.Context) error {
	if err := n.Systemctl(ctx, "start"); err == nil {
		return errors.New("the kubelet started through a shut gate")
	}
	return nil
}
