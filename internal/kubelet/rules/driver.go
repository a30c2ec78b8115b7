package rules

import (
	"cmp"
	"fmt"
	"strings"
)

// driver compares the kubelet's cgroup driver with the runtime's.
func (l *look) driver(m *Machine) {
	own := cmp.Or(l.text("cgroupDriver"), "cgroupfs")
	asks, tells := l.asks(m)
	unless := ""
	switch {
	case m.CgroupDriver == "" || own == m.CgroupDriver || asks && tells || l.elsewhere(m):
		return
	case asks && m.RuntimeVersion == "":
		defer func(before Severity) { l.rule.Severity = before }(l.rule.Severity)
		l.rule.Severity, unless = Note, ", unless the runtime tells its driver (containerd from 2.0, CRI-O from 1.28, to a kubelet from 1.31)"
	}
	// runc, libcontainer/specconv, CreateCgroupConfig: with systemd it takes slice:prefix:name only, with cgroupfs that too, as a path.
	then := "no pod starts"
	if own == "systemd" && m.Runtime != "cri-o" {
		then = "pods run outside of the cgroups that it makes and limits"
	}
	l.field("cgroupDriver", "set cgroupDriver: "+m.CgroupDriver, "the runtime's cgroup driver is %s, the kubelet's is %s: the kubelet runs, and %s%s", m.CgroupDriver, own, then, unless)
}

// elsewhere says whether the kubelet uses another runtime than the one that is known.
func (l *look) elsewhere(m *Machine) bool {
	at := l.text("containerRuntimeEndpoint")
	for _, f := range l.Flags {
		if f.Name == "container-runtime-endpoint" {
			at = f.Value
		}
	}
	plain := func(s string) string {
		return strings.Replace(strings.TrimPrefix(s, "unix://"), "/var/run/", "/run/", 1)
	}
	return at != "" && m.Endpoint != "" && plain(at) != plain(m.Endpoint)
}

// drives is the driver that the kubelet will use: the runtime's where it asks for that, and learns it.
func (l *look) drives(m *Machine) string {
	if asks, tells := l.asks(m); m.CgroupDriver != "" && asks && (tells || m.RuntimeVersion == "") && !l.elsewhere(m) {
		return m.CgroupDriver
	}
	return cmp.Or(l.text("cgroupDriver"), "cgroupfs")
}

// asks says whether the kubelet asks the runtime for its driver, and whether that certainly tells it. Of most runtimes nobody
// knows the version before they run.
func (l *look) asks(m *Machine) (asks, tells bool) {
	return l.gate("KubeletCgroupDriverFromCRI"), m.RuntimeTells || m.Runtime == "containerd" && newer(m.RuntimeVersion, 2, 0) || m.Runtime == "cri-o" && newer(m.RuntimeVersion, 1, 28)
}

func newer(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}
