package explain

import (
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// evidence is the file that a fact was read from, or empty where facts do not say: those of old recordings, and what is a
// count or a list of facts.
func evidence(f *world.Facts, p path) string {
	if len(p) == 0 {
		return ""
	}
	if name, _ := toldBy(f, p); name != "" {
		return f.Evidence[factName(f, p)]
	}
	if a := acceleratorAt(f, p); a != nil && a.Evidence != nil && len(p) > 2 && slices.Contains([]string{"name", "model", "kind"}, p[2].name) {
		return *a.Evidence
	}
	address, face := deviceOf(f, p)
	if address == "" && len(p) > 1 && p[1].number && slices.Contains([]string{"accelerators", "nics", "pci"}, p[0].name) {
		return ""
	}
	lists := []string{p[0].name}
	if address != "" && p[0].name != "pci" {
		lists = append(lists, "pci") // what every function on the bus has: ids, driver, NUMA node
	}
	for _, list := range lists {
		rest := p[1:]
		if address != "" {
			rest = p[2:]
		}
		for n := len(rest); n >= 0; n-- {
			field := ""
			for _, s := range rest[:n] {
				if s.number {
					field += "[]"
				} else {
					field += "." + s.name
				}
			}
			names := []string{list + field}
			if address != "" {
				names = []string{list + "[" + address + " " + face + "]" + field, list + "[" + address + "]" + field, list + "[]" + field}
			}
			for _, name := range names {
				if file := f.Evidence[name]; file != "" {
					return strings.NewReplacer("{address}", address, "{interface}", face).Replace(file)
				}
			}
		}
	}
	return ""
}

// acceleratorAt is the accelerator that a path leads into, if it does.
func acceleratorAt(f *world.Facts, p path) *world.Accelerator {
	if len(p) > 1 && p[0].name == "accelerators" && p[1].number && p[1].index >= 0 && p[1].index < len(f.Accelerators) {
		return &f.Accelerators[p[1].index]
	}
	return nil
}

// deviceOf returns the address, or for a disk the name, of the device that a path leads into, and the name of its interface; empty where it has none.
func deviceOf(f *world.Facts, p path) (address, face string) {
	if len(p) < 2 || !p[1].number || p[1].index < 0 {
		return "", ""
	}
	var at, name *string
	switch n := p[1].index; {
	case p[0].name == "accelerators" && n < len(f.Accelerators):
		at = f.Accelerators[n].Address
	case p[0].name == "nics" && n < len(f.NICs):
		at, name = f.NICs[n].Address, f.NICs[n].Interface
	case p[0].name == "pci" && n < len(f.PCI):
		at = &f.PCI[n].Address
	case p[0].name == "block_devices" && n < len(f.BlockDevices):
		at = &f.BlockDevices[n].Name
	}
	if at != nil {
		address = *at
	}
	if name != nil {
		face = *name
	}
	return address, face
}

// factName is the name under which facts keep the evidence of a device's field, when that field has its own.
func factName(f *world.Facts, p path) string {
	address, _ := deviceOf(f, p)
	if address == "" || len(p) < 3 {
		return ""
	}
	name := p[0].name + "[" + address + "]"
	for _, s := range p[2:] {
		name += "." + s.name
	}
	return name
}

// toldBy is the detector that a device's field comes from, and the device's address; "" if it is built-in detection.
func toldBy(f *world.Facts, p path) (detector, address string) {
	said, ok := strings.CutPrefix(f.Evidence[factName(f, p)], "detector ")
	if !ok {
		return "", ""
	}
	detector, _, _ = strings.Cut(said, ": ")
	address, _ = deviceOf(f, p)
	return detector, address
}
