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

// MaxFile is how much of a file Root reads: more than any file of /sys or /proc that tells of hardware.
const MaxFile = 1 << 20

// Root is the folder that stands for "/". All its paths are absolute paths on the node: "/sys/class/net". The zero Root
// is empty: nothing is there.
type Root struct {
	dir  string
	fsys fs.FS
}

// NewRoot returns the root at a folder; "" and "/" are the machine itself. Below any other folder no link leads out.
func NewRoot(dir string) (Root, error) {
	if dir == "" || filepath.Clean(dir) == "/" {
		return Root{"/", os.DirFS("/")}, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Root{}, err
	}
	r, err := os.OpenRoot(abs)
	if err != nil {
		return Root{}, fmt.Errorf("root: %w", err)
	}
	return Root{abs, r.FS()}, nil
}

// Dir returns the folder, absolute.
func (r Root) Dir() string { return r.dir }

// Real tells whether this is the machine itself: where a tool or a library that knows no other root may be asked.
func (r Root) Real() bool { return r.dir == "/" }

// Path returns where a path of the node is for the rest of this program: for a socket, for a library.
func (r Root) Path(p string) string { return filepath.Join(r.dir, p) }

func local(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p != "" {
		return p
	}
	return "."
}

func (r Root) files() fs.FS {
	if r.fsys == nil {
		return nothing{}
	}
	return r.fsys
}

// nothing is a file system without files.
type nothing struct{}

func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Read returns a file's first MiB.
func (r Root) Read(p string) ([]byte, error) {
	f, err := r.files().Open(local(p))
	if err != nil {
		return nil, plainly(p, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return nil, plainly(p, err)
	}
	return b, nil
}

// plainly names the path as the node knows it.
func plainly(p string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", p, err)
}

// Text returns a file's text without the space around it.
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
		return 0, fmt.Errorf("%s: %q is no number", p, short(s))
	}
	return n, nil
}

func short(s string) string { return s[:min(len(s), 63)] }

// Names returns what a folder holds, sorted; nothing for a folder that is not there or cannot be read.
func (r Root) Names(dir string) []string {
	list, err := fs.ReadDir(r.files(), local(dir))
	if err != nil {
		return nil
	}
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.Name()
	}
	slices.Sort(out)
	return out
}

// Glob returns the paths that a pattern of path.Match names, sorted.
func (r Root) Glob(pattern string) []string {
	list, err := fs.Glob(r.files(), local(pattern))
	if err != nil {
		return nil
	}
	for i := range list {
		list[i] = "/" + list[i]
	}
	slices.Sort(list)
	return list
}

// Exists tells whether a path is there, at the end of its links.
func (r Root) Exists(p string) bool {
	_, err := fs.Stat(r.files(), local(p))
	return err == nil
}

// Link returns the last name of what a link points to: of a device's link "driver", the driver.
func (r Root) Link(p string) (string, error) {
	to, err := fs.ReadLink(r.files(), local(p))
	if err != nil {
		return "", plainly(p, err)
	}
	return path.Base(to), nil
}

// PCIDevices returns all PCI functions, sorted by address. A function of which a file cannot be read is there with what
// could be.
func (r Root) PCIDevices() []PCIDevice {
	var out []PCIDevice
	const dir = "/sys/bus/pci/devices/"
	for _, address := range r.Names(dir) {
		id := func(file string) string {
			s, _ := r.Text(dir + address + "/" + file)
			return strings.ToLower(strings.TrimPrefix(s, "0x"))
		}
		d := PCIDevice{Address: address, Vendor: id("vendor"), Device: id("device"), SubsystemVendor: id("subsystem_vendor"),
			SubsystemDevice: id("subsystem_device"), Class: id("class")}
		d.Driver, _ = r.Link(dir + address + "/driver")
		if n, err := r.Int(dir + address + "/numa_node"); err == nil && n >= 0 {
			d.NUMA = new(int(n))
		}
		out = append(out, d)
	}
	return out
}
