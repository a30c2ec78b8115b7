package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelSettings are the settings that a kubelet changes for the whole machine (k8s.io/kubernetes pkg/kubelet/cm,
// setupKernelTunables), and systemd. The node has its own file for each, so that the machine's are not changed.
func kernelSettings() []string {
	return []string{
		"vm/overcommit_memory",
		"vm/panic_on_oom",
		"kernel/panic",
		"kernel/panic_on_oops",
		"kernel/keys/root_maxkeys",
		"kernel/keys/root_maxbytes",
		"fs/file-max",
	}
}

// fresh are the paths that a node begins without, whatever the machine below has.
func fresh() []string {
	return []string{
		"/etc/kubernetes",
		"/etc/prelet",
		"/etc/cni",
		"/etc/containerd",
		"/etc/default/kubelet",
		"/etc/systemd/system",
		"/var/lib/kubelet",
		"/var/lib/prelet",
		"/var/lib/containerd",
		"/var/log/pods",
		"/usr/lib/prelet",
		"/usr/lib/systemd/system",
		"/usr/lib/systemd/system-generators",
		"/opt/cni",
		"/opt/bin/kubelet",
		"/usr/local/bin/kubelet",
		"/usr/bin/getsubids", // with it, the user IDs for pods depend on this machine
	}
}

// makeRoot makes the node's root and moves into it.
func makeRoot(c config) error {
	groups, err := list()
	if err != nil {
		return err
	}
	disk, root := c.Disk, c.Disk+"/root"
	if err := mount("tmpfs", disk, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, d := range []string{"/upper", "/work", "/root", "/settings", "/hardware"} {
		if err := os.Mkdir(disk+d, 0o755); err != nil {
			return err
		}
	}
	err = mount(
		"overlay",
		root,
		"overlay",
		0,
		fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", c.Base, disk, disk),
	)
	if err != nil {
		return err
	}
	for _, p := range fresh() {
		if err := os.RemoveAll(root + p); err != nil {
			return err
		}
	}
	if err := copyDisk(c.Copy, root); err != nil {
		return err
	}
	address, _, _ := strings.Cut(c.Address, "/")
	_ = os.Remove(root + "/etc/resolv.conf") // may be a link
	for p, text := range map[string]string{"/etc/machine-id": c.MachineID + "\n", "/etc/hostname": c.Hostname + "\n", "/etc/resolv.conf": "nameserver 127.0.0.1\n",
		// A kubelet looks its own host name up, and must not wait for a name server that cannot be reached.
		"/etc/hosts": "127.0.0.1 localhost\n" + address + " " + c.Hostname + "\n"} {
		if err := os.WriteFile(root+p, []byte(text), 0o644); err != nil {
			return err
		}
	}
	err = errors.Join(
		mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("sysfs", root+"/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("tmpfs", root+"/run", "tmpfs", unix.MS_NOSUID, "mode=755"),
		mount("tmpfs", root+"/tmp", "tmpfs", unix.MS_NOSUID, "mode=1777"),
		devices(root+"/dev"),
	)
	if err != nil {
		return err
	}
	if err := groups.mount(root + "/sys/fs/cgroup"); err != nil {
		return err
	}
	if err := mountHardware(c.Hardware, disk+"/hardware", root); err != nil {
		return err
	}
	if err := settings(disk+"/settings", root); err != nil {
		return err
	}
	for to, from := range c.Files {
		if err := bindFile(from, root+to); err != nil {
			return err
		}
	}
	// Overlay over overlay has no room for a runtime's snapshots, and a kubelet asks how full its disk is.
	for _, d := range []string{
		"/var/lib/containerd",
		"/var/log/pods",
		"/var/lib/kubelet",
		"/etc/kubernetes",
		"/etc/prelet",
		"/run/lock",
		"/usr/lib/systemd/system/service.d",
	} {
		if err := os.MkdirAll(root+d, 0o755); err != nil {
			return err
		}
	}
	if err := mount("tmpfs", root+"/var/lib/containerd", "tmpfs", 0, "mode=711"); err != nil {
		return err
	}
	return enter(root)
}

// copyDisk copies the persistent files of another root, as an image would contain them.
func copyDisk(from, root string) error {
	if from == "" {
		return nil
	}
	for _, p := range fresh() {
		if _, err := os.Lstat(from + p); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(root+p), 0o755); err != nil {
			return err
		}
		if out, err := exec.Command("cp", "-a", "-x", from+p, root+p).CombinedOutput(); err != nil {
			return fmt.Errorf("copying %s: %w: %s", p, err, out)
		}
	}
	return nil
}

// settings binds a copy of each kernel setting over it.
func settings(copies, root string) error {
	for _, name := range kernelSettings() {
		value, err := os.ReadFile("/proc/sys/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		own := filepath.Join(copies, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(own, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(own, root+"/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("a copy of %s: %w", name, err)
		}
	}
	return nil
}

func bindFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(to, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s as %s: %w", from, to, err)
	}
	return nil
}

// enter makes root the root, and lets go of the old one.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the old root: %w", err)
	}
	// As on a booted machine: without it a kubelet mounts its folder over itself.
	return errors.Join(os.Chdir("/"), unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
}

func mount(source, at, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, at, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", kind, at, err)
	}
	return nil
}

// devices makes a /dev without the disks and terminals of the machine, which a service manager would set up.
func devices(at string) error {
	err := mount("tmpfs", at, "tmpfs", unix.MS_NOSUID, "mode=755")
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse"} {
		if _, missing := os.Stat("/dev/" + name); missing == nil {
			err = errors.Join(err, bindFile("/dev/"+name, filepath.Join(at, name)))
		}
	}

	return errors.Join(
		err,
		os.Mkdir(at+"/pts", 0o755),
		os.Mkdir(at+"/shm", 0o755),
		mount("devpts", at+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"),
		mount("tmpfs", at+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		os.Symlink("pts/ptmx", at+"/ptmx"),
		os.Symlink("/proc/self/fd", at+"/fd"),
	)
}
