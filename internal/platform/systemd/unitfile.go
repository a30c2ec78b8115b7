package systemd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// UnitFile is a unit as its files below a root declare it, without a running systemd.
type UnitFile struct {
	Names   []string // its name, and those of aliases
	Load    string   // loaded, masked or not-found
	Enabled bool     // a unit wants or requires it

	// Settings are the lines of [Service] after all drop-ins, by name. An empty one removes the earlier ones.
	Settings unitfile.Settings

	refusal   string // why systemd does not load it for a line of its own file
	noCommand string // why it has no ExecStart=, if none is left: the last is empty, or systemd drops it
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
	u := UnitFile{Names: names, Load: "not-found", Settings: unitfile.Settings{}}

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
		u.add(file, string(text))
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

// ReadListedUnit reads the files of a unit that systemd lists, in its order.
func ReadListedUnit(u Unit) UnitFile {
	out := UnitFile{Names: []string{u.Name}, Load: u.Load, Settings: unitfile.Settings{}}
	for _, file := range u.Files {
		text, err := nodefile.ReadFile(file, maxUnitFile)
		if err == nil {
			out.add(file, string(text))
		}
	}

	return out
}

// add adds a file that systemd reads after the others. At a command line that it cannot read, it drops that line and
// the rest of the file; if that is the unit's own file, and not a drop-in, it refuses the unit. Source: config_parse()
// in src/shared/conf-parser.c, config_parse_exec() and unit_load_fragment() in src/core/load-fragment.c.
func (u *UnitFile) add(file, text string) {
	isOwn := !strings.HasSuffix(path.Dir(file), ".d")
	for _, s := range unitfile.Parse(text) {
		kept, why := s.Value, ""
		place := fmt.Sprintf("%s:%d: ", file, s.Line)
		if s.Section == "Service" && slices.Contains(commandSettings, s.Name) {
			kept, why = keepCommands(s.Value)
		}
		if s.Value == "" || kept != "" {
			s.Value = kept
			u.Settings.Add(file, s)
		}
		if isStart := s.Section == "Service" && s.Name == "ExecStart"; isStart && s.Value == "" {
			u.noCommand = place + "it has no ExecStart= but this empty one: write one below it"
		} else if isStart && why != "" {
			u.noCommand = place + "it has no ExecStart=: " + why
		}
		if why == "" {
			continue
		}
		if isOwn && u.refusal == "" {
			u.refusal = place + why
		}

		return
	}
}

var commandSettings = []string{
	"ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost",
}

// keepCommands returns the commands of a line that systemd keeps, and why it reads the file no further.
func keepCommands(line string) (kept, why string) {
	var keeps []string
	for _, command := range splitCommands(line) {
		isIgnored, refusal := refuseCommand(command)
		switch {
		case refusal == "":
			keeps = append(keeps, command)
		case isIgnored:
			return strings.Join(keeps, " ; "), ""
		default:
			return strings.Join(keeps, " ; "), refusal
		}
	}

	return strings.Join(keeps, " ; "), ""
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

// Define returns what systemd would make of the files. split splits a line into words.
func (u UnitFile) Define(split func(string) []string) unitfile.Definition {
	out := unitfile.Definition{Name: u.Names[0], Names: u.Names, Load: u.Load}
	out.EnvironmentAt = map[string]string{}
	if !u.Enabled {
		out.File = "disabled"
	}
	words := func(line string) (all []string) {
		for _, word := range split(decodeEscapes(line)) {
			all = append(all, u.expandSpecifiers(word))
		}

		return all
	}

	out.Refusal = u.refusal
	commands := 0
	for _, line := range u.Settings["ExecStart"] {
		for _, text := range splitCommands(line.Value) {
			commands++
			out.Command, out.CommandAt = words(text), line.Place()
		}
	}
	switch {
	case out.Refusal != "" || u.Load != "loaded":
	case commands == 0 && u.Settings["SuccessAction"] == nil && u.Settings["RemainAfterExit"] == nil:
		out.Refusal = cmp.Or(u.noCommand, "it has no ExecStart=")
	case commands > 1 && u.Settings.Last("Type") != "oneshot":
		out.Refusal = out.CommandAt + ": it has more than one ExecStart=, which only Type=oneshot allows: write an " +
			"empty ExecStart= above it"
	}
	if len(out.Command) > 0 {
		prefix, program := cutPrefix(out.Command[0])
		out.Command[0] = program
		out.Literal = strings.Contains(prefix, ":")
		if strings.Contains(prefix, "@") && len(out.Command) > 1 {
			out.Command = slices.Delete(out.Command, 1, 2)
		}
		if !strings.Contains(program, AtStart) {
			out.Program = program
		}
	}
	for _, line := range u.Settings["Environment"] {
		for _, variable := range words(line.Value) {
			name, _, _ := strings.Cut(variable, "=")
			out.Environment = append(out.Environment, variable)
			out.EnvironmentAt[name] = line.Place()
		}
	}
	for _, line := range u.Settings["UnsetEnvironment"] {
		out.Unset = append(out.Unset, words(line.Value)...)
	}
	out.Folder = findFolder(u.expandSpecifiers(u.Settings.Last("WorkingDirectory")))
	for _, file := range u.Settings["EnvironmentFile"] {
		p, isOptional := strings.CutPrefix(u.expandSpecifiers(file.Value), "-")
		out.EnvironmentFiles = append(out.EnvironmentFiles, unitfile.EnvironmentFile{Path: p, Optional: isOptional})
	}
	out.HasPre = u.Settings["ExecStartPre"] != nil
	out.OtherRoot = u.Settings["RootDirectory"] != nil || u.Settings["RootImage"] != nil
	out.Watchdog, _ = unitfile.ParseTimespan(u.Settings.Last("WatchdogSec"))

	return out
}

// findFolder returns the folder of a WorkingDirectory=, which D-Bus marks with ! if it may be missing; "" if it is only
// known at the start of the unit.
func findFolder(text string) string {
	text = strings.TrimLeft(text, "-!")
	if !path.IsAbs(text) || strings.Contains(text, AtStart) {
		return ""
	}

	return text
}

// FindMissingFile returns the first EnvironmentFile= that must exist and does not, with its place; "" for none. A file
// below /run, or with a name that is only known at the unit's start, may appear until then.
func (u UnitFile) FindMissingFile(root nodefile.Root, planned map[string][]byte) (file, place string) {
	exists := func(file string) bool {
		if text, isPlanned := planned[file]; isPlanned {
			return text != nil
		}
		look, err := root.Look(file, nodefile.FollowAll)
		if err == nil {
			look.Close()
		}

		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, line := range u.Settings["EnvironmentFile"] {
		file, isOptional := strings.CutPrefix(u.expandSpecifiers(line.Value), "-")
		mayCome := strings.Contains(file, AtStart) || strings.HasPrefix(file, "/run/") || !path.IsAbs(file)
		if !isOptional && !mayCome && !slices.ContainsFunc(Glob(root, file), exists) {
			return file, line.Place()
		}
	}

	return "", ""
}

// cutPrefix cuts the special characters before the program of a command line: systemd.service(5), "Special executable
// prefixes". Each may be there once, and one of + ! !!.
func cutPrefix(word string) (prefix, program string) {
	n := 0
	for ; n < len(word); n++ {
		before := word[:n]
		isOnce := strings.ContainsRune("-@:|", rune(word[n])) && !strings.Contains(before, word[n:n+1])
		isPrivilege := word[n] == '+' && !strings.ContainsAny(before, "+!") ||
			word[n] == '!' && !strings.Contains(before, "+") && strings.Count(before, "!") < 2
		if !isOnce && !isPrivilege {
			break
		}
	}

	return word[:n], word[n:]
}

// splitCommands splits the commands of an ExecStart= at each ; that is a word of its own and not quoted.
func splitCommands(line string) (all []string) {
	begin := 0
	var quote byte
	for i := 0; i < len(line); i++ {
		isAlone := (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') &&
			(i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t')
		switch c := line[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ';' && isAlone:
			all = append(all, strings.TrimSpace(line[begin:i]))
			begin = i + 1
		}
	}
	if rest := strings.TrimSpace(line[begin:]); rest != "" {
		all = append(all, rest)
	}

	return all
}

// refuseCommand returns why systemd cannot read a command line, "" if it can; isIgnored: then it ignores the line.
func refuseCommand(text string) (isIgnored bool, why string) {
	words := strings.Fields(text)
	prefix, program := cutPrefix(strings.Trim(words[0], `"'`))
	specifiers := regexp.MustCompile(`%(%|[eFkKOQxXzZ0-9])`).FindAllString(text, -1)
	specifiers = slices.DeleteFunc(specifiers, func(s string) bool { return s == "%%" })
	switch {
	case program == "":
		why = "it has no program"
	case strings.Contains(program, "/") && !path.IsAbs(program):
		why = program + " is neither an absolute path nor the name of a program"
	case strings.Contains(prefix, "@") && len(words) < 2:
		why = "a command line with @ has no name for its process"
	case isOpenQuote(text):
		why = "a quote is not closed"
	case len(specifiers) > 0:
		why = specifiers[0] + " is not a specifier of systemd: write %% for a percent sign"
	}

	return strings.Contains(prefix, "-"), why
}

// isOpenQuote reports whether a line ends within quotes.
func isOpenQuote(line string) bool {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
	}

	return quote != 0
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
	if !nodefile.IsGlob(file) {
		return []string{file}
	}
	found, _ := root.Glob("/", file, nil) // the matches up to a bound; the rest is ignored

	return found
}
