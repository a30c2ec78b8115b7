package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// NodeOptions configure a node.
type NodeOptions struct {
	Name      string   // host name
	MachineID string   // "": a random one
	Address   string   // of eth0; "" is 10.0.0.5/24
	Loopback  []string // further addresses for doors in addition to 127.0.0.1, such as "10.0.0.11"
	// The tree of a recorded machine (make machines), which prelet and the kubelet then see; "" is this machine.
	Hardware  string
	Clone     *Node             // begin with a copy of that node's disk, as from an image that was taken of it
	NoKubelet bool              // no /usr/bin/kubelet
	Kubeadm   bool              // /usr/bin/kubeadm is installed
	Kubelet   string            // another binary than that of the installed version
	Files     map[string]string // further programs, by path in the node
}

// Node is a machine that may join: see node.sh.
type Node struct {
	Programs
	Name string
	Dir  string // its own folder outside
	IP   string // of its eth0

	otherKubelet bool   // NodeOptions.Kubelet
	stopRuntime  func() // of the fake one

	first   *process
	cgroups []string
	doors   []*Door
}

//go:embed node.sh
var nodeScript string

// NewNode starts a node on which nothing runs yet: kubelet.service is there as kubeadm's package has it, and the
// drop-in of prelet's package, which keeps the kubelet from starting before prelet has opened the gate.
func (p Programs) NewNode(ctx context.Context, o NodeOptions) (n *Node, err error) {
	dir, err := p.runDir("node")
	if err != nil {
		return nil, err
	}
	n = &Node{
		Programs:     p,
		Name:         o.Name,
		Dir:          dir,
		otherKubelet: o.Kubelet != "",
	}
	defer func() {
		if err != nil {
			n.Stop()
		}
	}()
	if o.MachineID == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		o.MachineID = hex.EncodeToString(id[:])
	}
	if o.Address == "" {
		o.Address = "10.0.0.5/24"
	}
	n.IP, _, _ = strings.Cut(o.Address, "/")
	base, err := filepath.EvalSymlinks(filepath.Join(p.Cache, "debian"))
	if err != nil {
		return n, err
	}
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		return n, err
	}
	ready, told, err := os.Pipe()
	if err != nil {
		return n, err
	}
	defer ready.Close()
	group := "prelet-" + filepath.Base(dir)
	if n.cgroups, err = cgroupsOf(group); err != nil {
		return n, err
	}
	previous := ""
	if o.Clone != nil {
		previous = o.Clone.Root()
	}
	n.first, err = begin(
		dir,
		syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWNET|syscall.CLONE_NEWUTS|syscall.CLONE_NEWIPC,
		[]*os.File{told},
		"bash", "-c", nodeScript, "node.sh",
		"base="+base,
		"disk="+disk,
		"group="+group,
		"hostname="+o.Name,
		"machine_id="+o.MachineID,
		"address="+o.Address,
		"loopback="+strings.Join(o.Loopback, " "),
		"hardware="+o.Hardware,
		"copy="+previous,
		"files="+strings.Join(p.nodeFiles(o), "\n"),
	)
	_ = told.Close()
	if err != nil {
		return n, err
	}
	if said, _ := io.ReadAll(ready); string(said) != "ready\n" {
		<-n.first.end
		return n, fmt.Errorf("the node %s did not come up: %s", o.Name, n.first.tail())
	}
	if o.Clone == nil {
		err = n.install()
	}
	if err != nil {
		return n, err
	}

	return n, n.answers(ctx, "/run/systemd/private")
}

// nodeFiles returns the programs of a node: the path in it, and the program outside.
func (p Programs) nodeFiles(o NodeOptions) []string {
	files := []string{
		"/usr/bin/prelet " + p.Prelet,
		"/opt/helpers/fakecri " + filepath.Join(p.Helpers, "fakecri"),
	}
	if !o.NoKubelet {
		files = append(files, "/usr/bin/kubelet "+cmp.Or(o.Kubelet, p.of("kubelet")))
	}
	if o.Kubeadm {
		files = append(files, "/usr/bin/kubeadm "+p.of("kubeadm"))
	}
	for path, program := range o.Files {
		files = append(files, path+" "+program)
	}
	if p.HasContainerd() {
		for _, name := range []string{"usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr", "usr/sbin/runc"} {
			files = append(files, "/"+name+" "+filepath.Join(p.Cache, "containerd", name))
		}
	}

	return files
}

// install puts the units where packages have them.
func (n *Node) install() error {
	const units = "/usr/lib/systemd/system/kubelet.service"
	return errors.Join(
		n.Write(units, kubeletUnit, 0o644),
		n.Write(units+".d/10-kubeadm.conf", kubeadmDropIn, 0o644),
		n.Write(units+".d/20-prelet.conf", gateDropIn, 0o644),
		os.MkdirAll(n.Root()+"/etc/kubernetes/manifests", 0o755))
}

// Of the packages of Kubernetes (k8s.io/release, cmd/krel/templates/latest), as the packages of pkgs.k8s.io have them.
const (
	kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	kubeadmDropIn = `# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
	// What prelet's package adds, as far as the kubelet's own start goes.
	gateDropIn = "[Unit]\nAfter=prelet.service\n[Service]\nEnvironmentFile=/run/prelet/kubelet.env\n"
)

// Root is the node's root as this process sees it.
func (n *Node) Root() string { return fmt.Sprintf("/proc/%d/root", n.first.pid) }

// Write makes a file of the node, and the folders above it.
func (n *Node) Write(path, text string, mode fs.FileMode) error {
	at := n.Root() + path
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		return err
	}
	return os.Chmod(at, mode)
}

// Credential gives the node one, as systemd would give it to prelet's units. An empty text takes it away.
func (n *Node) Credential(name, text string) error {
	p := credentialsDir + "/" + name
	if text == "" {
		return os.Remove(n.Root() + p)
	}
	_ = os.Remove(n.Root() + p) // it is read-only
	return n.Write(p, text+"\n", 0o400)
}

const credentialsDir = "/run/credentials/prelet.service"

// Enter is the command line that runs another one in the node.
func (n *Node) Enter(words ...string) []string {
	return append(
		[]string{
			"nsenter",
			"-t",
			strconv.Itoa(n.first.pid),
			"-m",
			"-u",
			"-i",
			"-n",
			"-p",
			"-r",
			"-w",
			"--",
		},
		words...)
}

// Run runs a command in the node and waits for its end.
func (n *Node) Run(ctx context.Context, words ...string) (CommandResult, error) {
	return command(ctx, n.Environment(), n.Enter(words...)...)
}

// Environment returns the environment of prelet's units.
func (n *Node) Environment() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LC_ALL=C.UTF-8",
		"CREDENTIALS_DIRECTORY=" + credentialsDir,
		"PRELET_BOOT_ID=" + n.bootID(),
	}
}

// bootID is the node's own: a boot is the life of its first process.
func (n *Node) bootID() string { return fmt.Sprintf("%032x", n.first.pid) }

// Site replaces the site: name of a file → its text.
func (n *Node) Site(files map[string]string) error {
	if err := os.RemoveAll(n.Root() + "/etc/prelet"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := n.Write("/etc/prelet/"+name, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Background starts a command in the node that runs until the node ends.
func (n *Node) Background(words ...string) (func(), error) {
	p, err := begin(n.Dir, 0, nil, "nsenter", n.Enter(words...)[1:]...)
	if err != nil {
		return nil, err
	}
	return func() { p.stop(syscall.SIGTERM, 5*time.Second) }, nil
}

// Stop kills the node and removes its folders and control groups.
func (n *Node) Stop() {
	for _, d := range n.doors {
		d.Shut()
	}
	n.first.stop(syscall.SIGKILL, time.Second)
	removeCgroups(n.cgroups)
	_ = os.RemoveAll(n.Dir)
}

// cgroupsOf are the folders of a control group in every hierarchy.
func cgroupsOf(name string) (out []string, err error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 2 && (f[2] == "cgroup" || f[2] == "cgroup2") &&
			strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			out = append(out, filepath.Join(f[1], name))
		}
	}
	return out, nil
}

// removeCgroups removes control groups with their subgroups, after the killed processes in them are gone.
func removeCgroups(groups []string) {
	for _, g := range groups {
		for range 100 {
			var below []string
			_ = filepath.WalkDir(g, func(p string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					below = append(below, p)
				}
				return nil
			})
			for _, p := range slices.Backward(below) {
				_ = syscall.Rmdir(p)
			}
			if _, err := os.Stat(g); errors.Is(err, fs.ErrNotExist) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// Sweep removes what runs that were killed have left: their processes have ended with them, and took mounts and
// networks along.
func (p Programs) Sweep() error {
	left, err := filepath.Glob(
		filepath.Join(p.Cache, "run", "[cn]*-*-*"),
	) // cluster-PID-…, node-PID-…
	if err != nil {
		return err
	}
	for _, dir := range left {
		parts := strings.Split(filepath.Base(dir), "-")
		pid, err := strconv.Atoi(parts[1])
		if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		groups, err := cgroupsOf("prelet-" + filepath.Base(dir))
		if err != nil {
			return err
		}
		removeCgroups(groups)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
