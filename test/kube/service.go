package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	stop, err := n.Background(
		filepath.Join("/opt/helpers", "fakecri"),
		socket,
		driver,
		"/",
	)
	if err != nil {
		return err
	}
	n.stopRuntime = stop

	return n.answers(ctx, socket)
}

// StopFakeRuntime stops Kubernetes' fake of a runtime, which forgets its containers.
func (n *Node) StopFakeRuntime() error {
	n.stopRuntime()

	return os.RemoveAll(n.Root() + socket)
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
