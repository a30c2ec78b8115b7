package explain

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/prelet/prelet/internal/model/tape"
)

// device is a detected device that a path of the facts leads into. The zero value is none.
type device struct {
	address, port string // of a disk: its name; port is the interface of a network card
	isDisk        bool
	identity      string // the file that the path, of a name, a model or a kind of an accelerator, was read from
}

// String returns the device in words; "" for none.
func (d device) String() string {
	address := prefixed("PCI ", d.address)
	if d.isDisk {
		address = d.address
	}

	return join(address, prefixed("interface ", d.port))
}

// names returns the names that the evidence of the fact at a path, or of a part that contains it, can have. The most
// specific name is first.
func (d device) names(p path) (names []string) {
	if d.address == "" {
		names = append(names, p[0]+p[1:].String())
		for n := len(p); n > 0; n-- {
			names = append(names, p[0]+fieldName(p[1:n]))
		}
		return names
	}

	for _, list := range []string{p[0], "pci"} { // pci has every device on the bus: ids, driver, NUMA node
		for n := len(p); n > 1; n-- {
			field := fieldName(p[2:n])
			names = append(
				names,
				list+"["+d.address+" "+d.port+"]"+field,
				list+"["+d.address+"]"+field,
				list+"[]"+field,
			)
		}
	}

	return names
}

// factPath returns the path in the answer of a path in the outputs of detect-hw: gpus are accelerators there.
func factPath(f *tape.Facts, p path) path {
	if p[0] != "gpus" {
		return p
	}

	var gpus []string
	for n, a := range f.Accelerators {
		if a.Kind == "gpu" {
			gpus = append(gpus, strconv.Itoa(n))
		}
	}
	p = path{"accelerators"}.extend(p[1:]...)
	if len(p) == 1 {
		return p
	}
	if n, ok := indexOf(p[1]); ok && n < len(gpus) {
		p[1] = gpus[n]
	}

	return p
}

// findDevice returns the device that a path leads into.
func findDevice(f *tape.Facts, p path) device {
	if len(p) < 2 {
		return device{}
	}
	n, ok := indexOf(p[1])
	if !ok {
		return device{}
	}

	switch list := p[0]; {
	case list == "accelerators" && n < len(f.Accelerators):
		a := f.Accelerators[n]
		d := device{address: ptr.Deref(a.Address, "")}
		if len(p) > 2 && slices.Contains([]string{"name", "model", "kind"}, p[2]) {
			d.identity = ptr.Deref(a.Evidence, "")
		}
		return d
	case list == "nics" && n < len(f.NICs):
		return device{
			address: ptr.Deref(f.NICs[n].Address, ""),
			port:    ptr.Deref(f.NICs[n].Interface, ""),
		}
	case list == "pci" && n < len(f.PCI):
		return device{address: f.PCI[n].Address}
	case list == "block_devices" && n < len(f.BlockDevices):
		return device{address: f.BlockDevices[n].Name, isDisk: true}
	}

	return device{}
}

// evidence returns the file that a fact was read from; "" if the facts do not name it.
func (d device) evidence(f *tape.Facts, p path) string {
	placeholders := strings.NewReplacer("{address}", d.address, "{interface}", d.port)
	for _, name := range d.names(p) {
		file := f.Evidence[name]
		isGeneral := strings.Contains(name, "[]")
		isOfNoDevice := d.address == "" && strings.Contains(file, "{")
		switch {
		case isGeneral && d.identity != "":
			return d.identity
		case file != "" && !isOfNoDevice:
			return placeholders.Replace(file)
		}
	}

	return ""
}

// whyUnknown returns why a fact is unknown; "" if the facts do not say it.
func (d device) whyUnknown(f *tape.Facts, p path) string {
	for _, name := range d.names(p) {
		for _, u := range f.Unknown {
			if u.Fact == name {
				return u.Why
			}
		}
	}

	return ""
}

// fieldName returns a path as the names of facts have it: an element of a list is [].
func fieldName(p path) string {
	name := ""
	for _, key := range p {
		if isIndex(key) {
			name += "[]"
		} else {
			name += "." + key
		}
	}

	return name
}
