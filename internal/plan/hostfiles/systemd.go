// Package hostfiles has the rules of other programs of a node that read files: systemd with its folders and the
// kubelet's unit, logind with its drop-ins, Node Feature Discovery with its features. It reads no file and asks
// nothing: its callers pass the texts.
package hostfiles

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// systemPath is a folder whose files systemd applies. Source: sysctl.d(5), modules-load.d(5), tmpfiles.d(5),
// udev(7).
type systemPath struct {
	folder, suffix string
	old            string // a file that distributions link into the folder; "" for none
	Unit, Action   string
	stays          string                   // the effect of a removed file that lasts until the next boot
	key            func(line string) string // returns the setting in a line, which another line may set too
}

// ActionCreate runs systemd-tmpfiles for the files themselves. The unit that does so for all files also removes,
// which would be wrong on a running node.
const ActionCreate = "create"

// listSystemPaths returns the table, in the order in which systemd applies the folders at boot.
func listSystemPaths() []systemPath {
	return []systemPath{
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

// findSystemPath returns the row for a file; nil if there is none.
func findSystemPath(file string) *systemPath {
	for _, p := range listSystemPaths() {
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

// findSuffix returns the ending that systemd needs of the names of files in a folder, where this file has another one;
// "" if it has it, is a README, or the folder is another one. Source: the pages above, systemd.unit(5),
// systemd-system.conf(5).
func findSuffix(file string) string {
	folder := path.Dir(file)
	suffix := ""
	for _, p := range listSystemPaths() {
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

// sysctl is a line of a file of sysctl.d. Source: sysctl.d(5); systemd, src/sysctl/sysctl.c.
type sysctl struct {
	line int    // the first one is 1
	key  string // net.ipv4.conf.eth0/1.forwarding; "" for a line that is not an assignment
	path string // /proc/sys/net/…; "" for a key that may be missing (-), and for a pattern
}

// listSysctls returns the lines of a file of sysctl.d; none for another file.
func listSysctls(file, text string) (out []sysctl) {
	p := findSystemPath(file)
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

		s := sysctl{line: number}
		isOptional := line[0] == '-'
		if isOptional || strings.Contains(line, "=") {
			s.key = strings.TrimSpace(parseSysctlKey(line))
		}
		if s.key != "" && !isOptional && !strings.ContainsAny(s.key, "*?[") {
			s.path = "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(s.key)
		}
		out = append(out, s)
	}

	return out
}

// listSettings returns the settings in a file that systemd applies. A backslash at the end of a line continues it.
func listSettings(p *systemPath, text string) (out []string) {
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

// FindStaying returns the effect of removed content of a file that lasts until the next boot; "" for none. old is the
// file as it is, and action what happens to it.
func FindStaying(f desired.File, action string, old tape.TargetAns) string {
	p := findSystemPath(f.Path)
	switch {
	case p == nil || f.Purpose != "file":
		return ""
	case action == "delete":
		return p.describeRemoval()
	case action != "update", old.Private, len(f.Text.Secrets()) > 0:
		return ""
	}

	return p.describeChange(old.Text, f.Text.Template())
}

// describeRemoval returns the effect of a removed file that lasts until the next boot.
func (p *systemPath) describeRemoval() string { return p.stays + " until the next boot" }

// describeChange returns the effect of settings that a changed file no longer has; "" for none.
func (p *systemPath) describeChange(old, planned string) string {
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

	return strings.Join(removed, ", ") + ": " + p.describeRemoval()
}

// checkSections warns of the first setting of a unit's file that is outside of a section, in an unknown section, or
// misspelt. Source: systemd.unit(5), systemd.exec(5); names that begin with X- are for others.
func checkSections(f desired.File) hcl.Diagnostics {
	known := strings.Fields("Unit Install Service Socket Mount Automount Swap Timer Path Slice Scope")
	settings := strings.Fields("Environment EnvironmentFile PassEnvironment UnsetEnvironment WorkingDirectory " +
		"ExecStart ExecStartPre ExecStartPost ExecStop ExecStopPost ExecReload ExecCondition")
	for _, s := range unitfile.Parse(f.Text.Template()) {
		next := ""
		near := texts.Nearest(s.Name, settings)
		switch {
		case strings.HasPrefix(s.Section, "X-") || strings.HasPrefix(s.Name, "X-"):
		case s.Section == "":
			next = fmt.Sprintf("%s= is in no section. Write [Service] or another one in a line before it.", s.Name)
		case !slices.Contains(known, s.Section):
			next = fmt.Sprintf("It knows no section [%s]. Write [%s].", s.Section,
				cmp.Or(texts.Nearest(s.Section, known), "Service"))
		case s.Section == "Service" && near != "" && near != s.Name:
			next = fmt.Sprintf("It knows no setting %s=. Write %s=.", s.Name, near)
		}
		if next != "" {
			summary := fmt.Sprintf("systemd ignores line %d of %s", s.Line, f.Path)

			return hcl.Diagnostics{origin.Warning(fault.FileUnusable, f.FindDeclaration(), summary, "%s", next)}
		}
	}

	return nil
}

// CheckSystemFiles notes files that systemd does not read. It warns of lines in files of sysctl.d that systemd-sysctl
// silently skips: those that are not assignments, and names that the kernel does not have. A name in a folder that does
// not exist may be one of a module that the site loads, or of an interface that appears later. isMissing reports
// whether the node has no file at a path; false if that is not known.
func CheckSystemFiles(n desired.Node, isMissing func(path string) bool) hcl.Diagnostics {
	var found origin.Collector
	isModules := func(f desired.File) bool {
		p := findSystemPath(f.Path)
		return p != nil && p.Unit == "systemd-modules-load.service"
	}
	loadsModules := slices.ContainsFunc(n.Files, isModules)

	for _, f := range n.Files {
		if suffix := findSuffix(f.Path); suffix != "" && f.Kind == desired.Regular {
			found.Note(fault.FileUnusable, f.FindDeclaration(), "systemd does not read "+f.Path,
				"In this folder it reads names that end in %s. Write %s.", suffix,
				strings.TrimSuffix(f.Path, path.Ext(path.Base(f.Path)))+suffix)
		}
		if strings.HasPrefix(f.Path, "/etc/systemd/system/") && f.Kind == desired.Regular {
			found.Report(checkSections(f)...)
		}
		for _, s := range listSysctls(f.Path, f.Text.Template()) {
			at := f.FindDeclaration()
			switch {
			case s.key == "":
				found.Warn(
					fault.FileUnusable, at, fmt.Sprintf("Line %d of %s is not an assignment", s.line, f.Path),
					"systemd-sysctl skips it, and its unit fails. Write NAME = VALUE, or a comment (#).",
				)
			case s.path == "" || !isMissing(s.path):
			case isMissing(path.Dir(s.path)) && (loadsModules || interfaceSysctl().MatchString(s.path)):
			default:
				found.Warn(
					fault.KubeletMachine, at, "The kernel has no parameter "+s.key,
					"Line %d of %s has no effect: systemd-sysctl skips it silently. Correct the name, load its module "+
						"by a file of /etc/modules-load.d, or write -%s = VALUE where it may be missing.",
					s.line, f.Path, s.key,
				)
			}
		}
	}

	return found.Diags
}

// interfaceSysctl is a parameter of one network interface.
var interfaceSysctl = texts.LazyRegexp(`^/proc/sys/net/ipv[46]/(conf|neigh)/`)
