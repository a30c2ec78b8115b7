package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/bench/measure"
)

// program is one row of the table.
type program struct {
	name string
	// prepare writes what the program needs into a node, which is not measured, and returns the commands that are.
	prepare func(ctx context.Context, b *bench, n *node) ([]measure.Command, error)
	files   []string // that exist afterwards, with text in them
	same    bool     // with the same bytes as those of prelet's first run
	keeps   bool     // the program leaves these files as they were: it does not even write them again
	output  string   // that the program prints
}

// The programs, as the table names them.
const (
	floorName   = "floor"
	firstName   = "prelet, first run"
	planName    = "prelet plan, new kubelet"
	againName   = "prelet, nothing to do"
	kubeadmName = "kubeadm join phase kubelet-start"
	nodeadmName = "nodeadm init --skip run"
	scriptName  = "the old script, rewritten"
	cloudName   = "cloud-init"
	ignName     = "ignition"
	nfdName     = "nfd-worker"
)

// nfdGPU is the label that NFD gives a node with an NVIDIA GPU: class and vendor of a PCI device.
const nfdGPU = "feature.node.kubernetes.io/pci-0302_10de.present"

// written returns the four files that prelet, kubeadm and the old script write on a worker, and that cloud-init and
// Ignition are given. The flags are in kubeadm's file, or in the one that prelet and the script write.
func written(flags string) []string {
	return []string{
		"etc/kubernetes/pki/ca.crt",
		"etc/kubernetes/bootstrap-kubelet.conf",
		"var/lib/kubelet/config.yaml",
		flags,
	}
}

const (
	kubeadmFlags = "var/lib/kubelet/kubeadm-flags.env"
	extraFlags   = "etc/default/kubelet"
)

// programs are all rows, in the order of the table and of a round.
func programs() []program {
	return []program{
		{name: floorName, prepare: prepareFloor, files: floorFiles()},
		{name: firstName, prepare: preparePrelet, files: written(extraFlags)},
		{name: planName, prepare: preparePlan, output: "/etc/default/kubelet"},
		// The bootstrap kubeconfig of a joined node was removed.
		{name: againName, prepare: prepareAgain, keeps: true, files: []string{
			"etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml", extraFlags,
		}},
		{name: kubeadmName, prepare: prepareKubeadm, files: written(kubeadmFlags)},
		{name: nodeadmName, prepare: prepareNodeadm, files: []string{
			"etc/kubernetes/pki/ca.crt", "var/lib/kubelet/kubeconfig",
			"etc/kubernetes/kubelet/config.json", "etc/eks/kubelet/environment",
		}},
		{name: scriptName, prepare: prepareScript, files: written(extraFlags)},
		{name: cloudName, prepare: prepareCloudInit, files: written(extraFlags), same: true},
		{name: ignName, prepare: prepareIgnition, files: written(extraFlags), same: true},
		{name: nfdName, prepare: prepareNFD, output: nfdGPU},
	}
}

func floorFiles() []string {
	return []string{"floor/ca.crt", "floor/config.yaml", "floor/bootstrap-kubelet.conf", "floor/kubeadm-flags.env"}
}

func prepareFloor(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	return []measure.Command{{Args: []string{
		filepath.Join(b.helpers, "floor"), "-server", b.server.URL, "-ca-hash", b.server.CAHash,
		"-token-file", filepath.Join(b.tokens, "bootstrap-token"),
		"-hardware", machineRoot, "-out", filepath.Join(n.root, "floor"),
	}}}, nil
}

// preletCommand is prelet with a node's folder as its root: no kubelet is started.
func (b *bench) preletCommand(n *node, site string, gomaxprocs int) measure.Command {
	return measure.Command{
		Args: []string{b.prelet, "run", "--config", site, "--root", n.root},
		Env: []string{
			"PATH=/usr/bin:/bin",
			"CREDENTIALS_DIRECTORY=" + b.tokens,
			fmt.Sprintf("GOMAXPROCS=%d", gomaxprocs),
		},
	}
}

// unitProcs is the GOMAXPROCS of prelet's units.
const unitProcs = 4

func preparePrelet(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	return []measure.Command{b.preletCommand(n, b.site, unitProcs)}, nil
}

// preparePlan adds a real kubelet, which prelet asks once for its version and flags. Only on a root of its own: prelet
// starts no program below another root, and without systemd it only plans.
func preparePlan(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	err := errors.Join(
		n.installDebian(filepath.Join(b.peers, "debian")),
		n.mount(filepath.Join(b.kube, b.server.Version, "kubelet"), "opt/bin/kubelet"),
		n.mount(b.prelet, "opt/bin/prelet"),
		n.mount(b.site, "etc/prelet/site.hcl"),
		n.mount(b.tokens, "run/credentials"),
	)

	return []measure.Command{{
		Args: []string{"/opt/bin/prelet", "plan"},
		Env:  []string{"PATH=/usr/bin", "CREDENTIALS_DIRECTORY=/run/credentials", "GOMAXPROCS=4"},
		Root: n.root,
	}}, err
}

// prepareAgain lets the node join, as the kubelet would, and prelet see that.
func prepareAgain(ctx context.Context, b *bench, n *node) ([]measure.Command, error) {
	commands, err := preparePrelet(ctx, b, n)
	if err != nil {
		return nil, err
	}
	if _, _, err := commands[0].Run(ctx); err != nil {
		return nil, err
	}
	if err := n.write("etc/kubernetes/kubelet.conf", b.server.Kubeconfig); err != nil {
		return nil, err
	}
	_, _, err = commands[0].Run(ctx)

	return commands, err
}

// prepareKubeadm: the phases before kubelet-start check the machine, those after it wait for a kubelet. kubeadm finds
// no init system, so it starts none.
func prepareKubeadm(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	err := n.installDebian(filepath.Join(b.peers, "debian"))
	if err == nil {
		err = n.mount(filepath.Join(b.kube, b.server.Version, "kubeadm"), "opt/kubeadm")
	}

	return []measure.Command{{
		Args: []string{
			"/opt/kubeadm", "join", "phase", "kubelet-start", strings.TrimPrefix(b.server.URL, "https://"),
			"--token", b.server.Token, "--discovery-token-ca-cert-hash", b.server.CAHash, "--node-name", "peer",
			"--cri-socket", "unix:///nonexistent.sock",
		},
		Env:  []string{"PATH=/nonexistent", "HOME=/root"},
		Root: n.root,
	}}, err
}

// script is written again from the description of the original, which was never published.
const script = "tools/peers/init-k8s-node.py"

func prepareScript(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	err := errors.Join(
		n.installDebian(filepath.Join(b.peers, "debian")),
		n.mount(script, "opt/init-k8s-node.py"),
		n.write("etc/kubernetes/init-config", fmt.Sprintf(`{"apiserver": %q, "k8s_version": "1.11",
			"nodeLabels": "example.com/pool=a", "nodeTaints": "example.com/new=true:NoSchedule",
			"resources": {"cpuRemained": 220, "memoryReserved": "10%%"}}`, b.server.URL)),
	)

	return []measure.Command{{
		Args: []string{"/usr/bin/python3", "/opt/init-k8s-node.py", b.server.Token},
		Env:  []string{"PATH=/usr/bin"},
		Root: n.root,
	}}, err
}

// given returns the files of prelet's first run, which other programs are to write.
func (b *bench) given() (map[string]string, error) {
	files := map[string]string{}
	for _, name := range written(extraFlags) {
		text, err := os.ReadFile(filepath.Join(b.base, "first", name))
		if err != nil {
			return nil, err
		}
		files["/"+name] = string(text)
	}

	return files, nil
}

// cloudConfig is all that cloud-init reads besides the user data: one source of data, one module, no network.
const cloudConfig = `
datasource_list: [NoCloud]
disable_root: false
network: {config: disabled}
manage_etc_hosts: false
cloud_init_modules: [write-files]
cloud_config_modules: []
cloud_final_modules: []
system_info: {distro: debian, paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}
`

// prepareCloudInit gives cloud-init its user data on the disk, with a data source that is known before there is a
// network: so the first of its four stages writes the files.
func prepareCloudInit(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	files, err := b.given()
	if err != nil {
		return nil, err
	}
	type file struct {
		Path     string `json:"path"`
		Content  string `json:"content"`
		Encoding string `json:"encoding"`
		Mode     string `json:"permissions"`
	}
	var list []file
	for path, text := range files {
		list = append(list, file{path, base64.StdEncoding.EncodeToString([]byte(text)), "b64", "0600"})
	}
	data, err := json.Marshal(map[string]any{"write_files": list})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		n.installDebian(filepath.Join(b.peers, "debian")),
		n.write("etc/cloud/cloud.cfg", cloudConfig),
		n.write("var/lib/cloud/seed/nocloud/user-data", "#cloud-config\n"+string(data)),
		n.write("var/lib/cloud/seed/nocloud/meta-data", "instance-id: peer\ndsmode: local\n"),
	)

	return []measure.Command{{
		Args: []string{"/usr/bin/cloud-init", "init", "--local"},
		Env:  []string{"PATH=/usr/bin:/usr/sbin"},
		Root: n.root,
	}}, err
}

// prepareIgnition: a boot runs the stages fetch and files; its other stages have nothing to do here.
func prepareIgnition(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	files, err := b.given()
	if err != nil {
		return nil, err
	}
	var list []any
	for path, text := range files {
		list = append(list, map[string]any{
			"path": path, "mode": 0o600, "overwrite": true,
			"contents": map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(text))},
		})
	}
	config, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": "3.3.0"},
		"storage":  map[string]any{"files": list},
	})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		n.installDebian(filepath.Join(b.peers, "debian")),
		n.write("config.ign", string(config)),
		// Debian's build always labels files for SELinux: here by a program that does nothing.
		n.write("etc/selinux/config", "SELINUXTYPE=none\n"),
		os.MkdirAll(filepath.Join(n.root, "opt"), 0o755),
		os.Symlink("/usr/bin/true", filepath.Join(n.root, "opt/setfiles")),
	)

	var commands []measure.Command
	for _, stage := range []string{"fetch", "files"} {
		commands = append(commands, measure.Command{
			Args: []string{
				"/usr/lib/dracut/modules.d/30ignition/ignition", "--log-to-stdout",
				"--platform", "file", "--stage", stage, "--root", "/",
			},
			Env:  []string{"PATH=/opt:/usr/bin:/usr/sbin", "IGNITION_CONFIG_FILE=/config.ign"},
			Root: n.root,
		})
	}

	return commands, err
}

// prepareNFD: the worker refuses to start without a kubeconfig, also where it publishes nothing. With -v=1 it prints
// the labels.
func prepareNFD(_ context.Context, b *bench, n *node) ([]measure.Command, error) {
	err := errors.Join(
		n.installDebian(filepath.Join(b.peers, "debian")),
		n.mount(filepath.Join(b.peers, "nfd-worker"), "opt/nfd-worker"),
		n.write("kubeconfig", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
			"contexts": [{"name": "x", "context": {"cluster": "x"}}],
			"clusters": [{"name": "x", "cluster": {"server": %q}}]}`, b.server.URL)),
		os.MkdirAll(filepath.Join(n.root, "etc/kubernetes/node-feature-discovery/features.d"), 0o755),
	)

	return []measure.Command{{
		Args: []string{"/opt/nfd-worker", "-oneshot", "-no-publish", "-v=1", "-kubeconfig", "/kubeconfig"},
		Env:  []string{"NODE_NAME=peer", "PATH=/usr/bin"},
		Root: n.root,
	}}, err
}
