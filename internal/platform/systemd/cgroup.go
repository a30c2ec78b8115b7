package systemd

import (
	"os"
	"strings"
)

// OwnUnit returns the unit of this process, or "" if there is none. It needs no D-Bus: it reads /proc/self/cgroup.
func OwnUnit() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}

	return parseCgroup(string(text))
}

// parseCgroup returns the unit that owns a control group, given the text of a /proc/PID/cgroup, as systemd finds it
// (cg_pid_get_unit). Among the units of a user manager it returns the innermost; prelet's are units of the system.
func parseCgroup(text string) string {
	unit := ""
	for line := range strings.Lines(text) {
		// hierarchy:controllers:path. cgroup v1 has many hierarchies, of which systemd's own names the unit.
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[0] != "0" && f[1] != "name=systemd" {
			continue
		}

		for _, part := range strings.Split(f[2], "/") {
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				unit = part
			}
		}
	}

	return unit
}
