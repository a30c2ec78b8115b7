package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Dial connects to an address as a process of the node would.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return inNetwork(
		n.first.pid,
		func() (net.Conn, error) { return dialer.DialContext(ctx, network, address) },
	)
}

// Read reads a file of the node.
func (n *Node) Read(path string) (string, error) {
	b, err := os.ReadFile(n.Root() + path)
	return string(b), err
}

// Prelet runs prelet on the site in /etc/prelet, in the process that is started and not through prelet-apply.service,
// which this node's service manager does not have.
func (n *Node) Prelet(ctx context.Context, args ...string) (CommandResult, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	words := append([]string{"/usr/bin/prelet"}, args...)
	switch args[0] {
	case "run", "plan", "record", "validate":
		words = append(words, "--config", "/etc/prelet")
	}
	return n.Run(ctx, words...)
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
