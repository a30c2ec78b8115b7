package systemd

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/quantity"
)

// UnitFile is a unit as its files below a root declare it, without a running systemd.
type UnitFile struct {
	Path    string // its file; "" for none
	Masked  bool
	Enabled bool     // a unit wants or requires it
	Gate    []string // its EnvironmentFile= lines that must exist, after all drop-ins

	// Settings are the lines of [Service] after all drop-ins, by name. An empty one removes the earlier ones.
	Settings map[string][]string
}

// imageFolders are the folders of unit files in an image, the one that takes precedence first. /lib is a folder of its
// own in older images. /run is empty when the image boots.
func imageFolders() []string {
	folders := slices.DeleteFunc(unitFolders(), func(dir string) bool { return strings.HasPrefix(dir, "/run/") })

	return append(folders, "/lib/systemd/system")
}

const (
	maxUnitFile  = 1 << 20 // bytes
	maxUnitNames = 10_000
)

// ReadUnitFile reads the files of a unit and its drop-ins below a root.
func ReadUnitFile(root nodefile.Root, name string) (UnitFile, error) {
	u := UnitFile{Settings: map[string][]string{}}
	var text []byte

	for _, folder := range imageFolders() {
		file := path.Join(folder, name)
		b, masked, err := readUnitText(root, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return UnitFile{}, err
		}
		u.Path = file
		u.Masked = masked
		text = b
		break
	}

	texts, err := readDropIns(root, name)
	if err != nil {
		return UnitFile{}, err
	}
	for _, t := range slices.Concat([][]byte{text}, texts) {
		if err := u.apply(t); err != nil {
			return UnitFile{}, err
		}
	}
	for _, file := range u.Settings["EnvironmentFile"] {
		if !strings.HasPrefix(file, "-") {
			u.Gate = append(u.Gate, file)
		}
	}
	u.Enabled = isWanted(root, name)

	return u, nil
}

// apply applies the lines of one file.
func (u *UnitFile) apply(text []byte) error {
	options, err := unit.DeserializeOptions(bytes.NewReader(dropIgnored(text)))
	if err != nil {
		return err
	}

	for _, o := range options {
		switch {
		case o.Section != "Service":
		case o.Value == "":
			delete(u.Settings, o.Name)
		default:
			value := strings.ReplaceAll(o.Value, "\\\n", " ") // a line that goes on
			u.Settings[o.Name] = append(u.Settings[o.Name], value)
		}
	}

	return nil
}

// dropIgnored returns a unit's text without the lines that systemd skips, and that end the text for go-systemd:
// comments between the lines of a setting, and lines that are neither a setting nor a section.
func dropIgnored(text []byte) []byte {
	var out []byte
	goesOn := false
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		isComment := bytes.HasPrefix(trimmed, []byte("#")) || bytes.HasPrefix(trimmed, []byte(";"))
		isSetting := len(trimmed) == 0 || trimmed[0] == '[' || bytes.Contains(trimmed, []byte("="))
		if isComment || !goesOn && !isSetting {
			continue
		}
		out = append(out, line...)
		goesOn = bytes.HasSuffix(trimmed, []byte("\\"))
	}

	return out
}

// Unit returns what systemd would report of how the unit starts its process. split splits a line into words. Of
// specifiers only %% is replaced.
func (u UnitFile) Unit(split func(string) []string) Unit {
	out := Unit{Load: "loaded"}
	words := func(setting string) (all [][]string) {
		for _, line := range u.Settings[setting] {
			all = append(all, split(decodeEscapes(strings.ReplaceAll(line, "%%", "%"))))
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
		p, isOptional := strings.CutPrefix(file, "-")
		out.EnvironmentFiles = append(out.EnvironmentFiles, struct {
			Path     string
			Optional bool
		}{p, isOptional})
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

// readDropIns returns the texts of a unit's drop-ins in the order in which systemd reads them: by name, and of two with
// one name that of the first folder. Those of all units of the type have the lowest precedence.
func readDropIns(root nodefile.Root, name string) ([][]byte, error) {
	files := map[string]string{}
	for _, owner := range []string{strings.TrimPrefix(path.Ext(name), "."), name} {
		for _, folder := range slices.Backward(imageFolders()) {
			dir := path.Join(folder, owner+".d")
			for _, file := range listNames(root, dir) {
				if path.Ext(file) == ".conf" {
					files[file] = path.Join(dir, file)
				}
			}
		}
	}

	var out [][]byte
	for _, file := range slices.Sorted(maps.Keys(files)) {
		text, _, err := readUnitText(root, files[file])
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}

	return out, nil
}

// isWanted reports whether a link of `systemctl enable` exists.
func isWanted(root nodefile.Root, name string) bool {
	for _, folder := range imageFolders() {
		for _, dir := range listNames(root, folder) {
			isList := strings.HasSuffix(dir, ".wants") || strings.HasSuffix(dir, ".requires")
			if isList && slices.Contains(listNames(root, path.Join(folder, dir)), name) {
				return true
			}
		}
	}

	return false
}

// readUnitText reads a unit file or a drop-in. A link to /dev/null, which an image may not have, masks it.
func readUnitText(root nodefile.Root, file string) (text []byte, masked bool, err error) {
	if leadsToNull(root, file) {
		return nil, true, nil
	}
	look, err := root.Look(file, nodefile.FollowAll)
	if err != nil {
		return nil, false, err
	}
	defer look.Close()

	text, err = look.Read(maxUnitFile)

	return text, err == nil && len(text) == 0, err
}

func leadsToNull(root nodefile.Root, file string) bool {
	folder, err := root.Look(path.Dir(file), nodefile.FollowAll)
	if err != nil {
		return false
	}
	defer folder.Close()
	link, err := root.Look(path.Join(folder.Path(), path.Base(file)), nodefile.FollowNone)
	if err != nil {
		return false
	}
	defer link.Close()

	to, err := link.Target()

	return err == nil && to == "/dev/null"
}

// listNames returns the names in a folder, none if it cannot be read.
func listNames(root nodefile.Root, dir string) []string {
	look, err := root.Look(dir, nodefile.FollowAll)
	if err != nil {
		return nil
	}
	defer look.Close()
	names, _ := look.Names(maxUnitNames)

	return names
}

// Glob returns the files below a root that the path of an EnvironmentFile= means: those that match its last part, or
// the path itself.
func Glob(root nodefile.Root, file string) (out []string) {
	dir, pattern := path.Split(file)
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{file}
	}
	for _, name := range slices.Sorted(slices.Values(listNames(root, dir))) {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			out = append(out, path.Join(dir, name))
		}
	}

	return out
}
