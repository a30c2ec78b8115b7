package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountHardware mounts the files of a recorded machine over those of this one: processors and memory in /proc, and
// the folders of /sys with processors, memory and devices. A recording has the files that prelet reads; further files
// that the kubelet needs are added in the copy.
func mountHardware(tree, copies, root string) error {
	if tree == "" {
		return nil
	}
	for _, name := range []string{"proc", "sys"} {
		if out, err := exec.Command("cp", "-a", filepath.Join(tree, name), copies).
			CombinedOutput(); err != nil {
			return fmt.Errorf("copying the recorded machine: %w: %s", err, out)
		}
	}
	err := errors.Join(
		completeProc(copies+"/proc"),
		completeCPUs(copies+"/sys/devices/system"),
		completeInterfaces(copies+"/sys/class/net"),
	)
	if err != nil {
		return err
	}
	// No disk of this machine is one of that: its /sys/block would lead nowhere.
	if err := mount("tmpfs", filepath.Join(root, "sys/block"), "tmpfs", 0, "mode=555"); err != nil {
		return err
	}
	for _, name := range []string{"proc/cpuinfo", "proc/meminfo", "sys/bus", "sys/class", "sys/devices", "sys/kernel/mm"} {
		from := filepath.Join(copies, name)
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if err := unix.Mount(from, filepath.Join(root, name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s of the recorded machine: %w", name, err)
		}
	}
	for _, name := range []string{"etc/os-release", "etc/containerd/config.toml"} {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			continue
		}
		at := filepath.Join(root, name)
		_ = os.Remove(at) // often a link
		err = errors.Join(
			os.MkdirAll(filepath.Dir(at), 0o755),
			os.WriteFile(at, text, 0o644),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// completeProc adds the lines without which a kubelet ends: a clock speed, and how much swap there is.
func completeProc(proc string) error {
	cpuinfo, err := os.ReadFile(proc + "/cpuinfo")
	if err != nil {
		return err
	}
	if !bytes.Contains(cpuinfo, []byte("cpu MHz")) {
		cpuinfo = bytes.ReplaceAll(
			cpuinfo,
			[]byte("\nflags"),
			[]byte("\ncpu MHz\t\t: 2000.000\nflags"),
		)
	}
	meminfo, err := os.ReadFile(proc + "/meminfo")
	if err != nil {
		return err
	}
	if !bytes.Contains(meminfo, []byte("SwapTotal")) {
		meminfo = append(meminfo, "SwapTotal: 0 kB\nSwapFree: 0 kB\n"...)
	}
	return errors.Join(
		os.WriteFile(proc+"/cpuinfo", cpuinfo, 0o644),
		os.WriteFile(proc+"/meminfo", meminfo, 0o644),
	)
}

// completeCPUs gives each processor a core, and each NUMA node links to its processors and its distances.
func completeCPUs(system string) error {
	cpus, err := filepath.Glob(system + "/cpu/cpu[0-9]*")
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		siblings, err := os.ReadFile(cpu + "/topology/thread_siblings_list")
		if err != nil {
			return err
		}
		first := strings.FieldsFunc(
			string(siblings),
			func(r rune) bool { return r < '0' || r > '9' },
		)
		if len(first) == 0 {
			return fmt.Errorf("%s: %q", cpu, siblings)
		}
		if err := os.WriteFile(cpu+"/topology/core_id", []byte(first[0]+"\n"), 0o644); err != nil {
			return err
		}
	}
	nodes, err := filepath.Glob(system + "/node/node[0-9]*")
	if err != nil {
		return err
	}
	for i, node := range nodes {
		list, err := os.ReadFile(node + "/cpulist")
		if err != nil {
			return err
		}
		isComma := func(r rune) bool { return r == ',' }
		for _, part := range strings.FieldsFunc(strings.TrimSpace(string(list)), isComma) { // none: memory only
			from, to, isRange := strings.Cut(part, "-")
			a, bad := strconv.Atoi(from)
			b := a
			if isRange {
				b, err = strconv.Atoi(to)
			}
			if err := errors.Join(bad, err); err != nil {
				return err
			}
			for n := a; n <= b; n++ {
				name := fmt.Sprintf("cpu%d", n)
				if err := os.Symlink("../../cpu/"+name, filepath.Join(node, name)); err != nil {
					return err
				}
			}
		}
		var distances []string
		for k := range nodes {
			distances = append(distances, map[bool]string{true: "10", false: "21"}[k == i])
		}
		err = os.WriteFile(
			node+"/distance",
			[]byte(strings.Join(distances, " ")+"\n"),
			0o644,
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// completeInterfaces gives those an address that have none.
func completeInterfaces(net string) error {
	all, err := filepath.Glob(net + "/*")
	if err != nil {
		return err
	}
	for _, i := range all {
		if _, err := os.Stat(i + "/address"); err == nil {
			continue
		}
		if err := os.WriteFile(i+"/address", []byte("02:00:5e:00:53:ff\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
