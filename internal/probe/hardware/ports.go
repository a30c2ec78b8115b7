package hardware

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// kubeletPorts are the default ports of a kubelet: health, API, and the read-only one, which is off by default.
var kubeletPorts = []int64{10248, 10250, 10255}

// readPorts returns the ports of a kubelet that another process listens on, sorted. proc is a folder like /proc. A
// process whose descriptors this user may not read is not found.
func readPorts(proc string) (out []world.PortAns) {
	ports := map[string]int64{} // by the link of a descriptor, such as socket:[4711]
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, _ := os.ReadFile(filepath.Join(proc, table)) // without it no port is in use
		addListeners(ports, string(text))
	}
	if len(ports) == 0 {
		return nil
	}

	// The descriptors of one process at a time: a node has many.
	dirs, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, dir := range dirs {
		links, _ := os.ReadDir(filepath.Join(dir, "fd"))
		for _, link := range links {
			target, _ := os.Readlink(filepath.Join(dir, "fd", link.Name()))
			port, isListener := ports[target]
			if !isListener {
				continue
			}
			delete(ports, target)
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			command := string(bytes.TrimSpace(comm))
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err == nil && !strings.HasPrefix(command, "kubelet") {
				out = append(out, world.PortAns{Port: port, PID: pid, Command: command})
			}
		}
		if len(ports) == 0 {
			break
		}
	}
	slices.SortFunc(out, func(a, b world.PortAns) int { return int(a.Port - b.Port) })

	return out
}

// addListeners adds the sockets of a table like /proc/net/tcp that listen on a kubelet's port.
func addListeners(ports map[string]int64, table string) {
	const listening = "0A"
	for line := range strings.Lines(table) {
		// number, local address, remote address, state, …, inode as the tenth field
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listening {
			continue
		}
		_, text, _ := strings.Cut(f[1], ":")
		port, err := strconv.ParseInt(text, 16, 64)
		if err == nil && slices.Contains(kubeletPorts, port) {
			ports["socket:["+f[9]+"]"] = port
		}
	}
}
