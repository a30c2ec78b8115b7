package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prelet/prelet/bench/measure"
	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// bench is one benchmark: a cluster, a folder, and the machine that programs see.
type bench struct {
	options
	server  *measure.Server
	base    string // removed at the end
	site    string // of a kubeadm worker
	tokens  string // folder of the credential
	machine string // tree of the machine that all programs boot
	number  int    // of nodes that were made

	metadata metadata
	closers  []io.Closer
}

// spec describes the machine that all programs boot.
const spec = "testdata/hardware/spec/dgx-h100.json"

func newBench(ctx context.Context, o options) (*bench, error) {
	b := &bench{options: o, base: o.inside}
	var err error
	b.server, err = measure.StartServer(ctx, []string{
		filepath.Join(o.helpers, "kube-serve"),
		"-cache", o.kube,
		"-mod", "test/kube/go.mod",
		"-prelet", o.prelet,
		"-kubelet-config", "bench/testdata/kubelet-config.yaml",
		"-object", "examples/objects/kube-system/kubelet-config-1.11.yaml",
	})
	if err != nil {
		return nil, err
	}

	err = errors.Join(b.prepare(), b.serveMetadata())
	if err != nil {
		b.stop()
	}

	return b, err
}

func (b *bench) prepare() error {
	machine, err := hwtree.Read(spec)
	if err != nil {
		return err
	}
	if b.machine, err = b.build(machine); err != nil {
		return err
	}
	if err := measure.LayOver(b.machine); err != nil {
		return err
	}
	b.site, err = b.writeSite(measure.WorkerStages)
	if err != nil {
		return err
	}
	b.tokens = filepath.Join(b.base, "credentials")
	if err := os.Mkdir(b.tokens, 0o700); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(b.tokens, "bootstrap-token"), []byte(b.server.Token), 0o600)
}

func (b *bench) stop() {
	for _, c := range b.closers {
		_ = c.Close() // a socket
	}
	b.server.Stop()
}

// build makes the tree of a machine.
func (b *bench) build(machine hwtree.Spec) (string, error) {
	dir, err := os.MkdirTemp(b.base, "machine-")
	if err != nil {
		return "", err
	}

	return dir, hwtree.Build(machine, dir)
}

// machineRoot is where this thread's programs find that machine.
const machineRoot = "/"

// writeSite writes stages with the block of the cluster before them.
func (b *bench) writeSite(stages string) (string, error) {
	f, err := os.CreateTemp(b.base, "site-*.hcl")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(b.server.Site(stages))

	return f.Name(), errors.Join(err, f.Close())
}

// node is a small machine of its own for one execution: folders on the disk that is measured, and Debian's programs.
type node struct {
	root   string
	mounts []string
}

// newNode makes a node with the folders that packages bring.
func (b *bench) newNode() (*node, error) {
	b.number++
	n := &node{root: filepath.Join(b.base, fmt.Sprintf("n%d", b.number))}
	for _, dir := range []string{
		"etc/kubernetes/pki", "etc/default", "var/lib/kubelet", "var/lib/prelet", "run/prelet", "tmp", "floor",
	} {
		if err := os.MkdirAll(filepath.Join(n.root, dir), 0o755); err != nil {
			return nil, err
		}
	}

	return n, nil
}

// write writes a file of the node.
func (n *node) write(name, text string) error {
	path := filepath.Join(n.root, name)

	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// mount binds a file or folder of this machine into the node, read-only.
func (n *node) mount(from, to string) error {
	path := filepath.Join(n.root, to)
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(path, 0o755)
	} else {
		err = n.write(to, "")
	}
	if err == nil {
		err = syscall.Mount(from, path, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	n.mounts = append(n.mounts, path)
	if err := syscall.Mount("", path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", to, err)
	}

	return nil
}

// devices are those that programs open, by their numbers in the kernel's list of devices (admin-guide/devices.txt).
func devices() map[string]int {
	return map[string]int{"null": 1<<8 | 3, "zero": 1<<8 | 5, "random": 1<<8 | 8, "urandom": 1<<8 | 9}
}

// installDebian makes the node one on which a program can run with this folder as its root.
func (n *node) installDebian(debian string) error {
	if err := os.CopyFS(filepath.Join(n.root, "etc"), os.DirFS(filepath.Join(debian, "etc"))); err != nil {
		return err
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(n.root, name)); err != nil {
			return err
		}
	}

	if err := os.Mkdir(filepath.Join(n.root, "dev"), 0o755); err != nil {
		return err
	}
	for name, number := range devices() {
		if err := syscall.Mknod(filepath.Join(n.root, "dev", name), syscall.S_IFCHR|0o666, number); err != nil {
			return err
		}
	}

	return errors.Join(
		n.mount(filepath.Join(debian, "usr"), "usr"),
		n.mount("/sys", "sys"),
		n.mount("/proc", "proc"),
	)
}

// unmount leaves the node's files, for fsync's sake: see measureBoots in bench/run.
func (n *node) unmount() error {
	var all error
	for _, path := range n.mounts {
		all = errors.Join(all, syscall.Unmount(path, syscall.MNT_DETACH))
	}
	n.mounts = nil

	return all
}
