package systemd

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// UnitFile is a unit as its files below a root declare it, without a running systemd.
type UnitFile struct {
	Path    string // its file; "" for none
	Masked  bool
	Enabled bool     // a unit wants or requires it
	Gate    []string // its EnvironmentFile= lines that must exist, after all drop-ins
}

// imageFolders are the folders of unit files in an image, the one that takes precedence first. /lib is a folder of its
// own in older images.
func imageFolders() []string { return append(unitFolders(), "/lib/systemd/system") }

const (
	maxUnitFile  = 1 << 20 // bytes
	maxUnitNames = 10_000
)

// ReadUnitFile reads the files of a unit and its drop-ins below a root.
func ReadUnitFile(root nodefile.Root, name string) (UnitFile, error) {
	var u UnitFile
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
		if err := u.applyEnvironment(t); err != nil {
			return UnitFile{}, err
		}
	}
	u.Enabled = isWanted(root, name)

	return u, nil
}

// applyEnvironment applies the EnvironmentFile= lines of one file: an empty one removes the earlier ones.
func (u *UnitFile) applyEnvironment(text []byte) error {
	options, err := unit.DeserializeOptions(bytes.NewReader(text))
	if err != nil {
		return err
	}

	for _, o := range options {
		switch {
		case o.Section != "Service" || o.Name != "EnvironmentFile":
		case o.Value == "":
			u.Gate = nil
		case !strings.HasPrefix(o.Value, "-"):
			u.Gate = append(u.Gate, o.Value)
		}
	}

	return nil
}

// readDropIns returns the texts of a unit's drop-ins in the order in which systemd reads them: by name, and of two with
// one name that of the first folder.
func readDropIns(root nodefile.Root, name string) ([][]byte, error) {
	files := map[string]string{}
	for _, folder := range slices.Backward(imageFolders()) {
		dir := path.Join(folder, name+".d")
		for _, file := range listNames(root, dir) {
			if path.Ext(file) == ".conf" {
				files[file] = path.Join(dir, file)
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
