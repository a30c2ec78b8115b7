package app

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/app/doctor"
)

// lookUpTimeout bounds how long doctor waits for the resolver of the machine.
const lookUpTimeout = 3 * time.Second

// examineHost reads what kubeadm checks before a kubelet starts, below a root; "" is /.
func examineHost(ctx context.Context, root, hostname string) (out doctor.Host) {
	path := func(p string) string { return filepath.Join("/", root, p) }

	forward, _ := os.ReadFile(path("proc/sys/net/ipv4/ip_forward"))
	out.NoForward = strings.TrimSpace(string(forward)) == "0"

	// Only cgroup v2 has this list. With cgroup v1 the plan compares the hierarchies.
	if list, err := os.ReadFile(path("sys/fs/cgroup/cgroup.controllers")); err == nil {
		for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !slices.Contains(strings.Fields(string(list)), name) {
				out.MissingControllers = append(out.MissingControllers, name)
			}
		}
	}

	for _, name := range []string{"losetup", "mount"} {
		isInstalled := slices.ContainsFunc(servicePath, func(dir string) bool {
			_, err := os.Stat(path(dir + "/" + name))
			return err == nil
		})
		if !isInstalled {
			out.MissingPrograms = append(out.MissingPrograms, name)
		}
	}

	if hostname != "" {
		out.Hostname = hostname
		short, cancel := context.WithTimeout(ctx, lookUpTimeout)
		_, out.ResolveErr = net.DefaultResolver.LookupHost(short, hostname)
		cancel()
	}

	return out
}

// servicePath are the folders in which a service of systemd finds programs.
var servicePath = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}
