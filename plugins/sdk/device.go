package sdk

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"
)

// Device is a detected device. Fields that are set overrule the built-in detection; empty ones are unknown. Its methods
// are for one of Machine.Devices or NewDevice. Their files are below the device's folder in sysfs, or absolute paths.
type Device struct {
	PCI PCIDevice `json:"-"` // as in the request

	Address       string            `json:"address,omitempty"` // 0000:17:00.0; empty for a device without one
	Name          string            `json:"name,omitempty"`    // as the vendor's tools print it
	Kind          string            `json:"kind,omitempty"`    // gpu | npu | fpga | dpu | nic
	Vendor        string            `json:"vendor,omitempty"`  // lower case
	Model         string            `json:"model,omitempty"`   // the name without the vendor
	Driver        string            `json:"driver,omitempty"`
	MemoryBytes   uint64            `json:"memory_bytes,omitempty"`
	NUMA          *int              `json:"numa,omitempty"`
	Interface     string            `json:"interface,omitempty"`
	SpeedGbps     float64           `json:"speed_gbps,omitempty"` // not set while the link is down
	Link          string            `json:"link,omitempty"`       // up | down
	SRIOVTotalVFs *int              `json:"sriov_total_vfs,omitempty"`
	SRIOVNumVFs   *int              `json:"sriov_num_vfs,omitempty"`
	Attributes    map[string]string `json:"attributes,omitempty"`
	// Where fields were read, by JSON name or attributes.NAME. Methods that read or set a field set it.
	Evidence map[string]string `json:"evidence,omitempty"`

	machine *Machine
}

// NewDevice returns a device with the address, the driver and the NUMA node of a PCI function.
func (m *Machine) NewDevice(p PCIDevice) *Device {
	return &Device{
		PCI:        p,
		Address:    p.Address,
		Driver:     p.Driver,
		NUMA:       p.NUMA,
		Attributes: map[string]string{},
		Evidence:   map[string]string{},
		machine:    m,
	}
}

// Path returns the absolute path of a file.
func (d *Device) Path(file string) string {
	if path.IsAbs(file) {
		return file
	}

	return path.Join("/sys/bus/pci/devices", d.Address, file)
}

// Text returns the content of a file without the space around it. A file that cannot be read, or is empty, adds a
// warning.
func (d *Device) Text(file string) string {
	text, err := d.machine.Text(d.Path(file))
	if err == nil && text == "" {
		err = errors.New(file + ": it is empty")
	}
	d.warn(err)

	return text
}

// Int returns the number in a file, as Root.Int. A file that cannot be read, or has none, adds a warning.
func (d *Device) Int(file string) int64 {
	n, err := d.machine.Int(d.Path(file))
	d.warn(err)

	return n
}

func (d *Device) warn(err error) {
	if err != nil {
		d.machine.Warn("%s: %s", d.Address, strings.TrimPrefix(err.Error(), d.Path("")+"/"))
	}
}

// Glob returns the sorted absolute paths that match a pattern of path.Match.
func (d *Device) Glob(pattern string) []string { return d.machine.Glob(d.Path(pattern)) }

// PhysicalFunction returns the address of the physical function of a virtual one, "" for others.
func (d *Device) PhysicalFunction() string {
	address, _ := d.machine.Link(d.Path("physfn")) // others have no such link

	return address
}

// ReadName sets name and model to the text of a file, as SetName. It warns as Text.
func (d *Device) ReadName(file string) { d.SetName(d.Text(file), d.Path(file)) }

// ReadMemory sets the memory to the number in a file, in units of so many bytes. It warns as Int.
func (d *Device) ReadMemory(file string, unit uint64) {
	if n := d.Int(file); n > 0 && uint64(n) <= math.MaxUint64/unit {
		d.SetMemory(uint64(n)*unit, d.Path(file))
	}
}

// ReadAttribute sets an attribute to the text of a file and returns it. It warns as Text.
func (d *Device) ReadAttribute(name, file string) string {
	text := d.Text(file)
	d.SetAttribute(name, text, d.Path(file))

	return text
}

// ReadOptional is ReadAttribute for a file that not every device has: without the file the device gets no attribute and
// no warning.
func (d *Device) ReadOptional(name, file string) string {
	text, err := d.machine.Text(d.Path(file))
	if !errors.Is(err, fs.ErrNotExist) {
		d.warn(err)
	}
	d.SetAttribute(name, text, d.Path(file))

	return text
}

// ReadSRIOV sets the numbers of virtual functions. A device that cannot have any has no such files, which is not
// zero.
func (d *Device) ReadSRIOV() {
	total, err := d.machine.Int(d.Path("sriov_totalvfs"))
	if err != nil || total < 0 {
		return
	}
	d.SRIOVTotalVFs = new(int(total))
	d.Evidence["sriov_total_vfs"] = d.Path("sriov_totalvfs")

	if now, err := d.machine.Int(d.Path("sriov_numvfs")); err == nil && now >= 0 {
		d.SRIOVNumVFs = new(int(now))
		d.Evidence["sriov_num_vfs"] = d.Path("sriov_numvfs")
	}
}

// SetName sets the name, and the model without the vendor, which some names begin with: "AMD Instinct MI300X". A model
// that does not come from a name is kept. An empty name changes nothing.
func (d *Device) SetName(name, evidence string) {
	if name == "" {
		return
	}
	if d.Model == "" || d.Model == d.modelOf(d.Name) {
		d.Model = d.modelOf(name)
		d.Evidence["model"] = evidence
	}
	d.Name = name
	d.Evidence["name"] = evidence
}

func (d *Device) modelOf(name string) string {
	first, rest, _ := strings.Cut(name, " ")
	if strings.EqualFold(first, d.Vendor) && rest != "" {
		return rest
	}

	return name
}

// SetMemory sets the memory in bytes. 0 means unknown and changes nothing.
func (d *Device) SetMemory(bytes uint64, evidence string) {
	if bytes > 0 {
		d.MemoryBytes = bytes
		d.Evidence["memory_bytes"] = evidence
	}
}

// SetAttribute sets an attribute. An empty value means unknown and changes nothing.
func (d *Device) SetAttribute(name, value, evidence string) {
	if value != "" {
		d.Attributes[name] = value
		d.Evidence["attributes."+name] = evidence
	}
}
