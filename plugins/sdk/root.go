package sdk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MaxFile limits how much of a file Root reads. It is more than any file of /sys or /proc about hardware has.
const MaxFile = 1 << 20

// Root is a folder that replaces "/". All its paths are absolute paths on the node, for example "/sys/class/net". The
// zero Root is empty.
type Root struct {
	dir  string
	fsys fs.FS
}

// NewRoot returns the root at a folder. "" and "/" are the machine itself. No link leads out of any other folder.
func NewRoot(dir string) (Root, error) {
	if dir == "" || filepath.Clean(dir) == "/" {
		return Root{"/", os.DirFS("/")}, nil
	}

	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Root{}, err
	}
	r, err := os.OpenRoot(absolute)
	if err != nil {
		return Root{}, fmt.Errorf("root: %w", err)
	}

	return Root{absolute, r.FS()}, nil
}

// Dir returns the folder's absolute path.
func (r Root) Dir() string { return r.dir }

// Real reports whether this is the machine itself. Only then ask tools and libraries, which know no other root.
func (r Root) Real() bool {
	return r.dir == "/"
}

// Path returns the path of a node's file for the rest of this program, for example of a socket.
func (r Root) Path(p string) string {
	return filepath.Join(r.dir, p)
}

func (r Root) files() fs.FS {
	if r.fsys == nil {
		return os.DirFS("") // has no files
	}

	return r.fsys
}

// relative returns a path as package fs wants it.
func relative(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if p == "" {
		return "."
	}

	return p
}

// Read returns the first MiB of a file.
func (r Root) Read(p string) ([]byte, error) {
	f, err := r.files().Open(relative(p))
	if err != nil {
		return nil, onNode(p, err)
	}
	defer f.Close()

	b, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return nil, onNode(p, err)
	}

	return b, nil
}

// onNode replaces the path in an error by the path on the node.
func onNode(p string, err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}

	return fmt.Errorf("%s: %w", p, err)
}

// Text returns the content of a file without the space around it.
func (r Root) Text(p string) (string, error) {
	b, err := r.Read(p)
	return strings.TrimSpace(string(b)), err
}

// Int returns the number in a file: decimal, or hexadecimal with 0x.
func (r Root) Int(p string) (int64, error) {
	s, err := r.Text(p)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		shown := s[:min(len(s), 63)]
		return 0, fmt.Errorf("%s: invalid number %q", p, shown)
	}

	return n, nil
}

// Names returns the sorted names in a folder. A folder that cannot be read is empty.
func (r Root) Names(dir string) []string {
	list, err := fs.ReadDir(r.files(), relative(dir))
	if err != nil {
		return nil
	}

	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	slices.Sort(names)

	return names
}

// Glob returns the sorted paths that match a pattern of path.Match.
func (r Root) Glob(pattern string) []string {
	list, err := fs.Glob(r.files(), relative(pattern))
	if err != nil {
		return nil
	}
	for i := range list {
		list[i] = "/" + list[i]
	}
	slices.Sort(list)

	return list
}

// Exists reports whether a path exists. It follows links.
func (r Root) Exists(p string) bool {
	_, err := fs.Stat(r.files(), relative(p))
	return err == nil
}

// Link returns the last name in the target of a link, for example the driver of a device's link "driver".
func (r Root) Link(p string) (string, error) {
	target, err := fs.ReadLink(r.files(), relative(p))
	if err != nil {
		return "", onNode(p, err)
	}

	return path.Base(target), nil
}

// PCIDevices returns all PCI functions, sorted by address. Fields whose file cannot be read are empty.
func (r Root) PCIDevices() []PCIDevice {
	var devices []PCIDevice
	for _, address := range r.Names("/sys/bus/pci/devices") {
		dir := "/sys/bus/pci/devices/" + address
		id := func(file string) string {
			s, _ := r.Text(dir + "/" + file)
			return strings.ToLower(strings.TrimPrefix(s, "0x"))
		}

		d := PCIDevice{
			Address:         address,
			Vendor:          id("vendor"),
			Device:          id("device"),
			SubsystemVendor: id("subsystem_vendor"),
			SubsystemDevice: id("subsystem_device"),
			Class:           id("class"),
		}
		d.Driver, _ = r.Link(dir + "/driver")
		node, err := r.Int(dir + "/numa_node")
		if err == nil && node >= 0 {
			d.NUMA = new(int(node))
		}
		devices = append(devices, d)
	}

	return devices
}
