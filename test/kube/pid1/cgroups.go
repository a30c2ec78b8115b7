package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hierarchy is one of the machine's: version 2, or one of version 1 with its controllers.
type hierarchy struct {
	at      string // where the machine has it
	name    string // the name of its folder below /sys/fs/cgroup; "" for version 2 alone
	kind    string // cgroup or cgroup2
	options string
}

type hierarchies []hierarchy

// enterCgroups makes a group in each hierarchy, moves this process into it and makes it the root of what can be seen.
// systemd moves itself one deeper, because in version 2 a group with processes in it cannot hand controllers down.
func enterCgroups(name string) error {
	all, err := list()
	if err != nil {
		return err
	}
	for _, h := range all {
		group := filepath.Join(h.at, name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		// A new cpuset of version 1 is empty, and accepts no process.
		if strings.Contains(h.options, "cpuset") {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				text, err := os.ReadFile(filepath.Join(h.at, file))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(group, file), text, 0o644); err != nil {
					return err
				}
			}
		}
		err := os.WriteFile(
			filepath.Join(group, "cgroup.procs"),
			[]byte("0"),
			0o644,
		)
		if err != nil {
			return fmt.Errorf("entering %s: %w", group, err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("a cgroup namespace: %w", err)
	}

	return nil
}

// list reads the hierarchies from the table of mounts.
func list() (out hierarchies, err error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" && f[2] != "cgroup2" ||
			!strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			continue
		}
		h := hierarchy{
			at:   f[1],
			name: strings.Trim(strings.TrimPrefix(f[1], "/sys/fs/cgroup"), "/"),
			kind: f[2],
		}
		if f[2] == "cgroup" {
			var keep []string
			for _, o := range strings.Split(f[3], ",") {
				switch o {
				case "rw",
					"ro",
					"relatime",
					"noatime",
					"nosuid",
					"nodev",
					"noexec",
					"xattr",
					"clone_children":
				default:
					keep = append(keep, o) // controllers, or name=systemd
				}
			}
			h.options = strings.Join(keep, ",")
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		return nil, errors.New("no control groups below /sys/fs/cgroup")
	}
	return out, nil
}

// mount mounts each again, so that the node's group is the root of it.
func (all hierarchies) mount(at string) error {
	if len(all) == 1 && all[0].name == "" {
		return mount("cgroup2", at, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	err := mount(
		"tmpfs",
		at,
		"tmpfs",
		unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=755",
	)
	if err != nil {
		return err
	}
	for _, h := range all {
		to := filepath.Join(at, h.name)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		err := mount(
			h.kind,
			to,
			h.kind,
			unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			h.options,
		)
		if err != nil {
			return err
		}
	}
	return nil
}
