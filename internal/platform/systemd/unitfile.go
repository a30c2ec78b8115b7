package systemd

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/quantity"
)

// UnitFile is a unit as its files below a root declare it, without a running systemd.
type UnitFile struct {
	Names   []string // its name, and those of aliases
	Load    string   // loaded, masked or not-found
	Enabled bool     // a unit wants or requires it

	// Settings are the lines of [Service] after all drop-ins, by name. An empty one removes the earlier ones.
	Settings map[string][]string
}

// fileFolders are the folders of unit files below a root. /run is empty when an image boots.
func fileFolders(root nodefile.Root) []string {
	folders := unitfile.Folders()
	if root != "" {
		folders = slices.DeleteFunc(folders, func(dir string) bool { return strings.HasPrefix(dir, "/run/") })
	}

	return folders
}

const (
	maxUnitFile  = 1 << 20 // bytes
	maxUnitNames = 10_000
)

// ReadUnitFile reads the files of a unit and its drop-ins below a root.
func ReadUnitFile(root nodefile.Root, name string) (UnitFile, error) {
	return ReadPlannedUnit(root, name, nil)
}

// ReadPlannedUnit is ReadUnitFile as it will be with some files: their content by path, nil for a file that is removed.
func ReadPlannedUnit(
	root nodefile.Root,
	name string,
	planned map[string][]byte,
) (UnitFile, error) {
	inFolders := map[string][]string{}
	for _, folder := range fileFolders(root) {
		inFolders[folder] = listNames(root, folder)
	}
	names := findNames(root, inFolders, name)
	u := UnitFile{Names: names, Load: "not-found", Settings: map[string][]string{}}

	for _, file := range listUnitFiles(root, inFolders, names, planned) {
		text, masked, err := readUnitText(root, file, planned)
		isOwn := path.Base(file) == name
		switch {
		case !isOwn && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, nodefile.ErrNoFile)):
			continue // a link to nothing, or a folder: it hides others of its name
		case err != nil:
			return UnitFile{Names: names}, err
		case masked && isOwn:
			u.Load = "masked"
		case isOwn:
			u.Load = "loaded"
		}
		u.apply(text)
	}
	u.Enabled = slices.ContainsFunc(names, func(name string) bool { return isWanted(root, inFolders, name) })

	return u, nil
}

// listUnitFiles returns the files of a unit with some names, in the order in which systemd reads them. inFolders are
// the names in each folder of units.
func listUnitFiles(
	root nodefile.Root,
	inFolders map[string][]string,
	names []string,
	planned map[string][]byte,
) []string {
	var files []string
	add := func(dir string, listed []string, is func(name string) bool) {
		for _, name := range listed {
			file := path.Join(dir, name)
			if _, isPlanned := planned[file]; !isPlanned && is(name) {
				files = append(files, file)
			}
		}
	}
	folders := fileFolders(root)
	for _, dir := range folders {
		add(dir, inFolders[dir], func(name string) bool {
			if name != names[0] {
				return false
			}
			_, _, err := readUnitText(root, path.Join(dir, name), nil)

			return !errors.Is(err, fs.ErrNotExist)
		})
	}
	for _, dir := range unitfile.DropInFolders(folders, names) {
		if slices.Contains(inFolders[path.Dir(dir)], path.Base(dir)) {
			add(dir, listNames(root, dir), func(string) bool { return true })
		}
	}
	for file, text := range planned {
		if text != nil {
			files = append(files, file)
		}
	}

	return unitfile.Select(names, files)
}

// findNames returns the names of a unit: its own, those of the unit files that it is a link to, and aliases, which are
// links to one of them. systemd reads the drop-ins of all of them.
func findNames(root nodefile.Root, inFolders map[string][]string, name string) []string {
	links := map[string]string{} // name → the name of its file
	for _, folder := range fileFolders(root) {
		for _, file := range inFolders[folder] {
			if _, isHidden := links[file]; !isHidden && path.Ext(file) == path.Ext(name) {
				links[file] = linkedName(root, path.Join(folder, file))
			}
		}
	}

	names := []string{name}
	for to := links[name]; to != "" && !slices.Contains(names, to); to = links[to] {
		names = append(names, to)
	}
	for _, alias := range slices.Sorted(maps.Keys(links)) {
		if slices.Contains(names, links[alias]) && !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}

	return names
}

// linkedName returns the name of the unit file that a link leads to; "" if it is not a link, or leads out of the
// folders of units.
func linkedName(root nodefile.Root, file string) string {
	to, isLink := readLink(root, file)
	if !isLink {
		return ""
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(file), to)
	}
	if !slices.Contains(fileFolders(root), path.Dir(to)) {
		return ""
	}

	return path.Base(to)
}

// apply applies the lines of one file.
func (u *UnitFile) apply(text []byte) {
	for _, s := range unitfile.Parse(string(text)) {
		switch {
		case s.Section != "Service":
		case s.Value == "":
			delete(u.Settings, s.Name)
		default:
			u.Settings[s.Name] = append(u.Settings[s.Name], s.Value)
		}
	}
}

// AtStart begins a specifier whose value is known when the unit starts, as in ${%H}.
const AtStart = "${%"

// expandSpecifiers replaces the specifiers (systemd.unit(5)) of a line that follow from the unit's name. Others, such
// as %H, have a value only when the unit starts: they become a variable without a value, ${%H}.
func (u UnitFile) expandSpecifiers(line string) string {
	name := u.Names[0]
	bare := strings.TrimSuffix(name, path.Ext(name))
	prefix, instance, _ := strings.Cut(bare, "@")
	known := map[string]string{
		"%%": "%",
		"%n": name,
		"%N": bare,
		"%p": prefix,
		"%i": instance,
	}

	return regexp.MustCompile(`%[%A-Za-z]`).ReplaceAllStringFunc(line, func(s string) string {
		if text, isKnown := known[s]; isKnown {
			return text
		}

		return AtStart + s[1:] + "}"
	})
}

// Unit returns what systemd would report of the unit's files and of how it starts its process. split splits a line into
// words.
func (u UnitFile) Unit(split func(string) []string) Unit {
	out := Unit{Name: u.Names[0], Names: u.Names, Load: u.Load}
	if !u.Enabled {
		out.File = "disabled"
	}
	words := func(setting string) (all [][]string) {
		for _, line := range u.Settings[setting] {
			all = append(all, split(decodeEscapes(u.expandSpecifiers(line))))
		}

		return all
	}

	if commands := words("ExecStart"); len(commands) > 0 {
		out.Command = commands[len(commands)-1]
	}
	if len(out.Command) > 0 { // systemd.service(5), "Special executable prefixes"
		program := strings.TrimLeft(out.Command[0], "-@:+!|")
		hasOwnName := strings.Contains(strings.TrimSuffix(out.Command[0], program), "@")
		out.Command[0] = program
		if hasOwnName && len(out.Command) > 1 {
			out.Command = slices.Delete(out.Command, 1, 2)
		}
	}
	for _, variables := range words("Environment") {
		out.Environment = append(out.Environment, variables...)
	}
	for _, file := range u.Settings["EnvironmentFile"] {
		p, isOptional := strings.CutPrefix(u.expandSpecifiers(file), "-")
		out.EnvironmentFiles = append(out.EnvironmentFiles, unitfile.EnvironmentFile{Path: p, Optional: isOptional})
	}
	if lines := u.Settings["WatchdogSec"]; len(lines) > 0 {
		out.Watchdog, _ = quantity.ParseTimespan(lines[len(lines)-1])
	}

	return out
}

// decodeEscapes replaces the C escapes of systemd.syntax(7) in a line, such as \x20, by a backslash and the character.
// As for systemd, the backslash of another sequence is a character.
func decodeEscapes(line string) string {
	const escapes = `(?s)\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)`

	return regexp.MustCompile(escapes).ReplaceAllStringFunc(line, func(sequence string) string {
		switch sequence[1] {
		case 's':
			return `\ `
		case '\\', '"', '\'', ';':
			return sequence
		}
		text, err := strconv.Unquote(`"` + sequence + `"`)
		if err != nil {
			return `\` + sequence
		}

		var out []byte
		for _, b := range []byte(text) {
			out = append(out, '\\', b)
		}

		return string(out)
	})
}

// isWanted reports whether a link of `systemctl enable` exists.
func isWanted(root nodefile.Root, inFolders map[string][]string, name string) bool {
	for folder, names := range inFolders {
		for _, dir := range names {
			isList := strings.HasSuffix(dir, ".wants") || strings.HasSuffix(dir, ".requires")
			if isList && slices.Contains(listNames(root, path.Join(folder, dir)), name) {
				return true
			}
		}
	}

	return false
}

// readUnitText reads a unit file or a drop-in. A link to /dev/null, which an image may not have, masks it.
func readUnitText(
	root nodefile.Root,
	file string,
	planned map[string][]byte,
) (text []byte, masked bool, err error) {
	if text, isPlanned := planned[file]; isPlanned {
		return text, len(text) == 0, nil
	}
	if leadsToNull(root, file) {
		return nil, true, nil
	}
	text, err = root.ReadFile(file, maxUnitFile)

	return text, err == nil && len(text) == 0, err
}

func leadsToNull(root nodefile.Root, file string) bool {
	to, isLink := readLink(root, file)

	return isLink && to == "/dev/null"
}

// readLink returns where a link leads.
func readLink(root nodefile.Root, file string) (to string, isLink bool) {
	link, err := root.Look(file, nodefile.FollowAbove)
	if err != nil {
		return "", false
	}
	defer link.Close()

	to, err = link.Target()

	return to, err == nil
}

// listNames returns the names in a folder, none if it cannot be read.
func listNames(root nodefile.Root, dir string) []string {
	names, _ := root.Names(dir, maxUnitNames)
	return names
}

// Glob returns the files below a root that the path of an EnvironmentFile= means, as glob(3): those that match it, or
// the path itself.
func Glob(root nodefile.Root, file string) []string {
	if !strings.ContainsAny(file, "*?[") {
		return []string{file}
	}

	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(path.Clean(file), "/"), "/") {
		var next []string
		pattern := strings.ReplaceAll(part, "[!", "[^")
		for _, dir := range found {
			if !strings.ContainsAny(part, "*?[") {
				next = append(next, path.Join(dir, part))
				continue
			}
			for _, name := range slices.Sorted(slices.Values(listNames(root, dir))) {
				isHidden := name[0] == '.' && part[0] != '.'
				if ok, err := path.Match(pattern, name); ok && err == nil && !isHidden {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		found = next[:min(len(next), maxUnitNames)]
	}

	return found
}
