package hardware

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

// ReadHost reads the state for kubeadm's checks before a kubelet starts, other than ports, below root; "" is /. It
// follows links, so root must not be a recorded tree. What cannot be read counts as in order.
func ReadHost(ctx context.Context, root string) (out tape.HostAns) {
	path := func(p string) string { return filepath.Join("/", root, p) }

	forward, _ := os.ReadFile(path("proc/sys/net/ipv4/ip_forward"))
	out.NoForward = string(bytes.TrimSpace(forward)) == "0"

	// Only cgroup v2 has this list. With cgroup v1, plans compare the hierarchies.
	if list, err := os.ReadFile(path("sys/fs/cgroup/cgroup.controllers")); err == nil {
		for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !slices.Contains(strings.Fields(string(list)), name) {
				out.Controllers = append(out.Controllers, name)
			}
		}
	}

	for _, name := range []string{"losetup", "mount"} {
		isProgram := func(dir string) bool {
			stat, err := os.Stat(filepath.Join(path(dir), name))
			return err == nil && stat.Mode().IsRegular() && stat.Mode()&0o111 != 0
		}
		if !slices.ContainsFunc(servicePath(), isProgram) {
			out.Programs = append(out.Programs, name)
		}
	}

	lacksNetwork := func(dir string) bool {
		names, err := os.ReadDir(path(dir))
		isConfig := func(f os.DirEntry) bool {
			return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(f.Name()))
		}

		return (err == nil || errors.Is(err, fs.ErrNotExist)) && !slices.ContainsFunc(names, isConfig)
	}
	// The configuration of the runtime may name another folder. It is not read if the usual one has a network.
	if lacksNetwork(usualNetworks) {
		dir := cmp.Or(findRuntime(ctx, root).networks, usualNetworks)
		if lacksNetwork(dir) {
			out.NoNetwork = dir
		}
	}

	return out
}

// usualNetworks is the folder in which runtimes look for the configuration of CNI by default.
const usualNetworks = "/etc/cni/net.d"

// servicePath returns the folders in which a service of systemd finds programs.
// Source: systemd.exec(5), Environment Variables in Spawned Processes.
func servicePath() []string {
	return []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}
}
