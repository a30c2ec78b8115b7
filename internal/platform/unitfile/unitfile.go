// Package unitfile has the rules of systemd's unit files: their syntax, time spans, which files are of a unit, and in
// which order systemd reads them; and the state of a unit. It reads files only to find out why a unit of this machine
// does not start, so that a plan can use the rest.
package unitfile

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Gate is the file that the kubelet's unit waits for.
const Gate = "/run/prelet/kubelet.env"

// PreletUnits returns the units that the packages ship.
func PreletUnits() []string {
	return []string{
		"prelet.service", "prelet-apply.service", "prelet-verify.service", "prelet-boot-check.service",
		"prelet-check.service", "prelet-check.timer", "prelet-fallback.service", "prelet-site.service",
	}
}

// Setting is one line of a unit file.
type Setting struct {
	Section, Name, Value string

	Line int // of its begin, from 1
}

// Placed is the value of a setting, and its place.
type Placed struct {
	Value, File string
	Line        int
}

// Place returns FILE:LINE.
func (p Placed) Place() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Settings are the lines of [Service] of a unit, by name.
type Settings map[string][]Placed

// Add adds a line of a file that systemd reads after the others. An empty one removes the earlier ones.
func (all Settings) Add(file string, s Setting) {
	switch {
	case s.Section != "Service":
	case s.Value == "":
		delete(all, s.Name)
	default:
		all[s.Name] = append(all[s.Name], Placed{s.Value, file, s.Line})
	}
}

// Last returns the last value of a setting; "" for none.
func (all Settings) Last(name string) string {
	if lines := all[name]; len(lines) > 0 {
		return lines[len(lines)-1].Value
	}

	return ""
}

// Parse returns the settings of a file in systemd's syntax, in their order. A line that ends with a backslash continues
// on the next line that is not a comment. Lines that are neither a setting nor a section are skipped. Source:
// systemd.syntax(7), config_parse() in src/shared/conf-parser.c.
func Parse(text string) (out []Setting) {
	section, line := "", ""
	number, begin := 0, 0
	for part := range strings.Lines(strings.TrimPrefix(text, "\ufeff") + "\n\n") {
		number++
		part = strings.Trim(strings.TrimLeft(part, " \t"), "\r\n")
		if strings.HasPrefix(part, "#") || strings.HasPrefix(part, ";") {
			continue
		}
		if line == "" {
			begin = number
		}
		line += part
		if (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1 { // two are one character
			line = line[:len(line)-1] + " "
			continue
		}

		line = strings.TrimSpace(line)
		name, value, isSetting := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case isSetting:
			out = append(out, Setting{section, strings.TrimSpace(name), strings.TrimSpace(value), begin})
		}
		line = ""
	}

	return out
}

// Last returns the last value of a setting in a section of a file.
func Last(text, section, name string) (value string, isSet bool) {
	for _, s := range Parse(text) {
		if s.Section == section && s.Name == name {
			value, isSet = s.Value, true
		}
	}

	return value, isSet
}

// ParseBool returns a boolean by systemd's rules. It ignores a line with another value.
func ParseBool(value string) (isTrue, isValid bool) {
	switch strings.ToLower(value) {
	case "1", "yes", "y", "true", "t", "on":
		return true, true
	case "0", "no", "n", "false", "f", "off":
		return false, true
	}

	return false, false
}

// Folders returns the folders of unit files, highest precedence first. /lib is a folder of its own in older images.
func Folders() []string {
	return []string{
		"/etc/systemd/system.control",
		"/run/systemd/system.control",
		"/etc/systemd/system",
		"/etc/systemd/system.attached",
		"/run/systemd/system",
		"/run/systemd/system.attached",
		"/usr/local/lib/systemd/system",
		"/usr/lib/systemd/system",
		"/lib/systemd/system",
	}
}

// DropInFolders returns the folders of the drop-ins of a unit with some names, highest precedence first: of
// kube-let@a.service kube-let@a.service.d, kube-let@.service.d and kube-.service.d in each folder of units. Those of
// all units of the type have the lowest precedence.
func DropInFolders(folders, names []string) (out []string) {
	kind := path.Ext(names[0])
	for _, name := range names {
		for _, folder := range folders {
			for _, owner := range owners(name) {
				out = append(out, path.Join(folder, owner+".d"))
			}
		}
	}
	for _, folder := range folders {
		out = append(out, path.Join(folder, strings.TrimPrefix(kind, ".")+".d"))
	}

	return out
}

// owners returns the names whose drop-ins apply to a unit.
func owners(name string) []string {
	kind := path.Ext(name)
	stem := strings.TrimSuffix(name, kind)
	out := []string{name}
	if template, _, isInstance := strings.Cut(stem, "@"); isInstance {
		stem = template
		out = append(out, template+"@"+kind)
	}
	for i := strings.LastIndex(stem, "-"); i > 0; i = strings.LastIndex(stem[:i], "-") {
		out = append(out, stem[:i+1]+kind)
	}

	return out
}

// Select returns which of some files are of a unit with some names, in the order in which systemd reads them: its own,
// of which that in the first folder hides the others, then its drop-ins.
func Select(names, files []string) (out []string) {
	for _, folder := range Folders() {
		if file := path.Join(folder, names[0]); out == nil && slices.Contains(files, file) {
			out = append(out, file)
		}
	}

	return append(out, MergeDropIns(DropInFolders(Folders(), names), files)...)
}

// MergeDropIns returns which of some files are drop-ins in some folders, in the order in which systemd reads them: by
// name. Of two with one name that of the first folder hides the other.
func MergeDropIns(folders, files []string) (out []string) {
	byName := map[string]string{}
	for _, folder := range folders {
		for _, file := range files {
			name := path.Base(file)
			if _, isHidden := byName[name]; !isHidden && path.Dir(file) == folder && path.Ext(name) == ".conf" {
				byName[name] = file
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}

	return out
}
