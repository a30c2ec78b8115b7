// Package hostfiles knows what other programs of a node do with files: systemd with its folders and the kubelet's unit,
// logind with its drop-ins, the kubelet with the states of its managers. It reads no file and asks
// nothing: package boot gives it their texts.
package hostfiles

import (
	"path"
	"slices"
	"strings"
)

// SystemPath is a folder whose files systemd applies. Source: sysctl.d(5), modules-load.d(5), tmpfiles.d(5),
// udev(7).
type SystemPath struct {
	folder, suffix string
	old            string // a file that distributions link into the folder; "" for none
	Unit, Action   string
	stays          string                   // the effect of a removed file that lasts until the next boot
	key            func(line string) string // returns the setting in a line, which another line may set too
}

// ActionCreate runs systemd-tmpfiles for the files themselves. The unit that does so for all files also removes,
// which would be wrong on a running node.
const ActionCreate = "create"

// ListSystemPaths returns the table, in the order in which systemd applies the folders at boot.
func ListSystemPaths() []SystemPath {
	return []SystemPath{
		{
			folder: "modules-load.d",
			suffix: ".conf",
			old:    "/etc/modules",
			Unit:   "systemd-modules-load.service",
			Action: "restart",
			stays:  "the module stays loaded",
			key:    strings.TrimSpace,
		},
		{
			folder: "sysctl.d",
			suffix: ".conf",
			old:    "/etc/sysctl.conf",
			Unit:   "systemd-sysctl.service",
			Action: "restart",
			stays:  "the value stays set",
			key:    parseSysctlKey,
		},
		{
			folder: "tmpfiles.d",
			suffix: ".conf",
			Unit:   "systemd-tmpfiles",
			Action: ActionCreate,
			stays:  "its files and folders stay",
			key:    parseTmpfilesPath,
		},
		{
			folder: "udev/rules.d",
			suffix: ".rules",
			Unit:   "systemd-udevd.service",
			Action: "reload",
			stays:  "its effect on devices stays",
			key:    strings.TrimSpace,
		},
	}
}

// FindSystemPath returns the row for a file; nil if there is none.
func FindSystemPath(file string) *SystemPath {
	for _, p := range ListSystemPaths() {
		if file == p.old {
			return &p
		}
		for _, top := range []string{"/etc/", "/run/", "/usr/lib/", "/usr/local/lib/"} {
			if path.Dir(file) == top+p.folder && strings.HasSuffix(file, p.suffix) {
				return &p
			}
		}
	}

	return nil
}

// FindSuffix returns the ending that systemd needs of the names of files in a folder, where this file has another one;
// "" if it has it, is a README, or the folder is another one. Source: the pages above, systemd.unit(5),
// systemd-system.conf(5).
func FindSuffix(file string) string {
	folder := path.Dir(file)
	suffix := ""
	for _, p := range ListSystemPaths() {
		if strings.HasSuffix(folder, "/"+p.folder) {
			suffix = p.suffix
		}
	}
	isOther := path.Base(folder) == "ntp-units.d" // timedated reads *.list
	if strings.Contains(folder, "/systemd/") && strings.HasSuffix(folder, ".d") && !isOther {
		suffix = ".conf"
	}
	if strings.HasSuffix(file, suffix) || strings.HasPrefix(path.Base(file), "README") {
		return ""
	}

	return suffix
}

// Sysctl is a line of a file of sysctl.d. Source: sysctl.d(5); systemd, src/sysctl/sysctl.c.
type Sysctl struct {
	Line int    // the first one is 1
	Key  string // net.ipv4.conf.eth0/1.forwarding; "" for a line that is not an assignment
	Path string // /proc/sys/net/…; "" for a key that may be missing (-), and for a pattern
}

// ListSysctls returns the lines of a file of sysctl.d; none for another file.
func ListSysctls(file, text string) (out []Sysctl) {
	p := FindSystemPath(file)
	if p == nil || p.folder != "sysctl.d" {
		return nil
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}

		s := Sysctl{Line: number}
		isOptional := line[0] == '-'
		if isOptional || strings.Contains(line, "=") {
			s.Key = strings.TrimSpace(parseSysctlKey(line))
		}
		if s.Key != "" && !isOptional && !strings.ContainsAny(s.Key, "*?[") {
			s.Path = "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(s.Key)
		}
		out = append(out, s)
	}

	return out
}

// listSettings returns the settings in a file that systemd applies. A backslash at the end of a line continues it.
func listSettings(p *SystemPath, text string) (out []string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		isComment := strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
		if line != "" && !isComment {
			out = append(out, p.key(line))
		}
	}

	return out
}

// parseSysctlKey returns the key of a line of sysctl.d. If the first separator of a key is a slash, dots and slashes
// are interchanged in it: net/ipv4/conf/eth0.1/forwarding is net.ipv4.conf.eth0/1.forwarding. Source: sysctl.d(5).
func parseSysctlKey(line string) string {
	key, _, _ := strings.Cut(line, "=")
	key = strings.TrimPrefix(strings.TrimSpace(key), "-")
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '/' {
		return strings.NewReplacer(".", "/", "/", ".").Replace(key)
	}

	return key
}

// parseTmpfilesPath returns the path of a line of tmpfiles.d. Source: tmpfiles.d(5).
func parseTmpfilesPath(line string) string {
	if fields := strings.Fields(line); len(fields) > 1 {
		return fields[1]
	}

	return line
}

// DescribeRemoval returns the effect of a removed file that lasts until the next boot.
func (p *SystemPath) DescribeRemoval() string { return p.stays + " until the next boot" }

// DescribeChange returns the effect of settings that a changed file no longer has; "" for none.
func (p *SystemPath) DescribeChange(old, planned string) string {
	kept := listSettings(p, planned)
	var removed []string
	for _, s := range listSettings(p, old) {
		if !slices.Contains(kept, s) && !slices.Contains(removed, s) {
			removed = append(removed, s)
		}
	}
	if len(removed) == 0 {
		return ""
	}

	return strings.Join(removed, ", ") + ": " + p.DescribeRemoval()
}
